"""CUDA C++ of `implicit`, `halves` and `flat`: constants. Which taps reach which outputs (AXES, PHASES), what a block makes (GRID),
how octets are paired to steps (PAIRS), and for `implicit` where everything lies (CONSTANTS has all of it).
"""

AXES = """\
// The grid: outputs of one phase (of all, where nothing is transposed). A phase is a remainder of the output's coordinate
// modulo the stride: the same taps reach all outputs of a phase, each from neighbouring inputs.
struct Axis {
  int size, stride, padding, dilation;
  // Does tap k reach the outputs of a phase?
  constexpr bool meets(int phase, int k) const {
    return !TRANSPOSED || (phase + padding - k * dilation) % stride == 0;
  }
  // What it reads for place 0 of the grid.
  constexpr int reads(int phase, int k) const {
    return TRANSPOSED ? (phase + padding - k * dilation) / stride : k * dilation - padding;
  }
  constexpr int phases() const { return TRANSPOSED ? stride : 1; }
  constexpr int pace() const { return TRANSPOSED ? 1 : stride; }  // inputs from one place of the grid to the next
  constexpr int lowest() const {
    int found = 1 << 30;
    for (int phase = 0; phase < phases(); phase++)
      for (int k = 0; k < size; k++)
        if (meets(phase, k) && reads(phase, k) < found) found = reads(phase, k);
    return found;
  }
  constexpr int highest() const {
    int found = -(1 << 30);
    for (int phase = 0; phase < phases(); phase++)
      for (int k = 0; k < size; k++)
        if (meets(phase, k) && reads(phase, k) > found) found = reads(phase, k);
    return found;
  }
  // Inputs that `tile` places read.
  constexpr int span(int tile) const { return (tile - 1) * pace() + highest() - lowest() + 1; }
  constexpr int64_t places(int64_t outputs) const { return ws::ceil_div(outputs, (int64_t)phases()); }
};
constexpr int rounded(int n, int to) { return (n + to - 1) / to * to; }
constexpr Axis AXIS_D = {KD, SD, PD, LD}, AXIS_H = {KH, SH, PH, LH}, AXIS_W = {KW, SW, PW, LW};
"""
_TILE = """\
constexpr int TILE_W = WIDE < PIXELS ? WIDE : PIXELS, TILE_D = DEEP < PIXELS / TILE_W ? DEEP : PIXELS / TILE_W;
constexpr int TILE_H = PIXELS / TILE_W / TILE_D;
"""
PHASES = """\
constexpr int LOW_D = AXIS_D.lowest(), LOW_H = AXIS_H.lowest(), LOW_W = AXIS_W.lowest();
constexpr int PACE_D = AXIS_D.pace(), PACE_H = AXIS_H.pace(), PACE_W = AXIS_W.pace();
constexpr int PHASES_D = AXIS_D.phases(), PHASES_H = AXIS_H.phases(), PHASES_W = AXIS_W.phases();
// A block makes all phases of a row together, where they are few, so that it stores whole rows.
constexpr int INNER = PHASES_W <= 3 ? PHASES_W : 1, OUTER = PHASES_D * PHASES_H * (PHASES_W / INNER);
constexpr int LISTS = OUTER * INNER, TAPS = KD * KH * KW;
constexpr int phase_w(int outer, int inner) { return outer % (PHASES_W / INNER) + inner; }
constexpr int phase_h(int outer) { return outer / (PHASES_W / INNER) % PHASES_H; }
constexpr int phase_d(int outer) { return outer / (PHASES_W / INNER) / PHASES_H; }
constexpr int64_t BLOCKS_OUT = ws::ceil_div(OUTS, (int64_t)CHANNELS);
"""
_GRID = """\
constexpr int64_t TILES_D = ws::ceil_div(AXIS_D.places(OD), (int64_t)TILE_D);
constexpr int64_t TILES_H = ws::ceil_div(AXIS_H.places(OH), (int64_t)TILE_H);
constexpr int64_t TILES_W = ws::ceil_div(AXIS_W.places(OW), (int64_t)TILE_W);
constexpr int64_t BLOCKS = BLOCKS_OUT * OUTER * TILES_W * TILES_H * TILES_D * GROUPS * IMAGES;
static_assert(BLOCKS < 0x7fffffff, "requires: less than 2^31 blocks");
constexpr int V = PHASES_W == INNER ? ws::widest(OW, 4) : 1, STAGED = rounded(PIXELS * INNER, 16) + 4;

// The patch of the input that a tile reads. Columns of one remainder modulo the pace lie side by side.
constexpr int SPAN_D = AXIS_D.span(TILE_D), SPAN_H = AXIS_H.span(TILE_H);
constexpr int HALF = ws::ceil_div(AXIS_W.span(TILE_W), PACE_W), ROW = HALF * PACE_W, PLANE = SPAN_D * SPAN_H * ROW;
"""
GRID = PHASES + _GRID
# Of a table that says how many slices of the weights a list (a phase) has.
COUNTS = """\
  constexpr int slices_of(int outer) const {  // of a chunk
    int sum = 0;
    for (int inner = 0; inner < INNER; inner++) sum += slices(outer * INNER + inner);
    return sum;
  }
  constexpr int before(int outer) const {
    int sum = 0;
    for (int i = 0; i < outer; i++) sum += slices_of(i);
    return sum;
  }
"""
# Of `halves` and `flat`, whose steps are two octets each, 16 terms of the sum.
PAIRS = """\
// `where`: the first octet in the patch, and how much further the second one lies, times 2^16, both in octets. `octet`:
// tap * OCTETS + plane; -1: zeros.
template <int MOST>
struct Pairs {
  int octet[2 * MOST] = {}, count = 0, place = 0, half = -1;  // half a step waits for the other
  uint32_t where[MOST] = {};
  constexpr void add(int at, int own) {
    if (half < 0) {
      place = at, half = own;
      return;
    }
    const bool after = at >= place;  // how much further is never less than nothing
    where[count] = after ? place | (at - place) << 16 : at | (place - at) << 16;
    octet[2 * count] = after ? half : own, octet[2 * count + 1] = after ? own : half;
    count++, half = -1;
  }
  constexpr void end() {
    if (half < 0) return;
    where[count] = place, octet[2 * count] = half, octet[2 * count + 1] = -1;
    count++, half = -1;
  }
};
"""
_PATCHES = """\
// A plane a channel, such that the 4 x 8 elements that a warp reads for a fragment lie in different banks.
constexpr int PITCH = rounded(PLANE > 8 ? PLANE - 8 : 0, 32) + 8;
constexpr int CHUNKS = (int)ws::ceil_div(INS, (int64_t)CHUNK), QUADS = CHUNK / 4, PATCH = CHUNK * PITCH;

// For each list (an outer phase, an inner phase): its taps, bytes to where they lie in the patch, their numbers in the weight.
// A step is 8 terms of the sum: two of a list's halves, each one tap and four channels.
struct Taps {
  int first[LISTS + 1], at[TAPS], number[TAPS];
  constexpr int halves(int list) const { return (first[list + 1] - first[list]) * QUADS; }
  constexpr int slices(int list) const { return ws::ceil_div(ws::ceil_div(halves(list), 2), SLICE); }
@COUNTS  constexpr int fewest() const {  // of the outer phases that have any
    int found = 1 << 30;
    for (int i = 0; i < OUTER; i++)
      if (slices_of(i) > 0 && slices_of(i) < found) found = slices_of(i);
    return found;
  }
};
constexpr Taps make_taps() {
  Taps taps{};
  int n = 0;
  for (int list = 0; list < LISTS; list++) {
    const int d = phase_d(list / INNER), h = phase_h(list / INNER), w = phase_w(list / INNER, list % INNER);
    for (int number = 0; number < TAPS; number++) {
      const int kd = number / (KH * KW), kh = number / KW % KH, kw = number % KW;
      if (!AXIS_D.meets(d, kd) || !AXIS_H.meets(h, kh) || !AXIS_W.meets(w, kw)) continue;
      const int column = AXIS_W.reads(w, kw) - LOW_W;
      const int row = (AXIS_D.reads(d, kd) - LOW_D) * SPAN_H + AXIS_H.reads(h, kh) - LOW_H;
      taps.at[n] = 4 * (row * ROW + column % PACE_W * HALF + column / PACE_W);
      taps.number[n++] = number;
    }
    taps.first[list + 1] = n;
  }
  return taps;
}
static constexpr __constant__ Taps TABLE = make_taps();
constexpr int FEWEST = TABLE.fewest(), ALL_SLICES = TABLE.before(OUTER) * CHUNKS;
constexpr int LIVE = ws::ceil_div(STAGES - 1, FEWEST) + 1, PATCHES = LIVE < CHUNKS ? LIVE : CHUNKS;

// Warps side by side over the pixels, and two over the channels where one would need too many registers.
constexpr int WARPS_N = CHANNELS * INNER > 64 && CHANNELS % 16 == 0 ? 2 : 1, WARPS_M = PIXELS / (16 * FRAGMENTS);
constexpr int COLUMNS = CHANNELS / 8 / WARPS_N, THREADS = 32 * WARPS_M * WARPS_N;
constexpr int SLICE_SIZE = SLICE * 8 * CHANNELS;  // floats
struct Fragments {
  uint32_t a[FRAGMENTS][4], b[COLUMNS][2];
};
// Of one fragment of the weights: lane by lane, both values of one or two neighbouring blocks of 8 channels.
constexpr int PAIR = COLUMNS % 2 == 0 ? 2 : 1;
constexpr int RINGS = 4 * (PATCHES * PATCH + STAGES * SLICE_SIZE + PLANE), STAGING = 4 * CHANNELS * STAGED;
constexpr int SHARED = RINGS > STAGING ? RINGS : STAGING;
static_assert(SHARED <= 227 << 10, "requires: a patch that fits the shared memory");
constexpr uint64_t SPARE_AT = (ALL_SLICES * BLOCKS_OUT * GROUPS * SLICE_SIZE * 4 + 255) / 256 * 256;
"""
CONSTANTS = AXES + _TILE + GRID + _PATCHES.replace("@COUNTS", COUNTS)
