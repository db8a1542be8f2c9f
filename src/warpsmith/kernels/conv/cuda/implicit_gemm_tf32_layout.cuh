//! Shared-memory layout of the TF32 implicit GEMM: bank-conflict-free input patch, multistage ring of packed weights,
//! table of taps in constant memory, warp tiling. Limit: patches and stages fit 227 KiB. $slice_counts:
//! implicit_gemm_slice_counts.cuh.
// A plane a channel, such that the 4 x 8 elements that a warp reads for a fragment lie in different banks.
constexpr int PITCH = rounded(PLANE > 8 ? PLANE - 8 : 0, 32) + 8;
constexpr int CHUNKS = (int)ws::ceil_div(INS, (int64_t)CHUNK), QUADS = CHUNK / 4, PATCH = CHUNK * PITCH;

// For each list (an outer phase, an inner phase): its taps, bytes to where they lie in the patch, their numbers in the weight.
// A step is 8 terms of the sum: two of a list's halves, each one tap and four channels.
struct Taps {
  int first[LISTS + 1], at[TAPS], number[TAPS];
  constexpr int halves(int list) const { return (first[list + 1] - first[list]) * QUADS; }
  constexpr int slices(int list) const { return ws::ceil_div(ws::ceil_div(halves(list), 2), K_STEPS_PER_STAGE); }
$slice_counts
  constexpr int fewest() const {  // of the outer phases that have any
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
constexpr int WARPS_N = CHANNELS * INNER > 64 && CHANNELS % 16 == 0 ? 2 : 1, WARPS_M = TILE_PIXELS / (16 * MMA_TILES_PER_WARP);
constexpr int COLUMNS = CHANNELS / 8 / WARPS_N, THREADS = 32 * WARPS_M * WARPS_N;
constexpr int SLICE_SIZE = K_STEPS_PER_STAGE * 8 * CHANNELS;  // floats
struct Fragments {
  uint32_t a[MMA_TILES_PER_WARP][4], b[COLUMNS][2];
};
// Of one fragment of the weights: lane by lane, both values of one or two neighbouring blocks of 8 channels.
constexpr int PAIR = COLUMNS % 2 == 0 ? 2 : 1;
constexpr int RINGS = 4 * (PATCHES * PATCH + STAGES * SLICE_SIZE + PLANE), STAGING = 4 * CHANNELS * STAGED;
constexpr int SHARED = RINGS > STAGING ? RINGS : STAGING;
static_assert(SHARED <= 227 << 10, "requires: a patch that fits the shared memory");
constexpr uint64_t SPARE_AT = (ALL_SLICES * BLOCKS_OUT * GROUPS * SLICE_SIZE * 4 + 255) / 256 * 256;
