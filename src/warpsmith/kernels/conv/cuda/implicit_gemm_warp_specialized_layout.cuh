//! Layout and schedule of the warp-specialised implicit GEMM: zero-padded NC/8HWC8 image where a tap is a shift, bands
//! of taps that share a patch, K steps, weight ring, consumer warpgroups, occupancy, persistent grid, workspace. Limit:
//! 227 KiB a block.
// The image as vectors of 8 fp16 channels, 16 bytes a cell. Cells are the places of the grid, and so many more in a
// row that who reads beyond its end reads zeros: those the next one begins with where there are enough. So all cells lie in
// a row, over all images, and a tap is a shift. Inputs of one remainder modulo the pace are a plane of their own.
constexpr int64_t cells(const Axis& a, int64_t in, int64_t out) {
  const int64_t places = a.places(out), apart = (a.highest() - a.lowest()) / a.pace();
  const int64_t zeros = a.lowest() < 0 ? -a.lowest() / a.pace() : 0, ends = ws::ceil_div(in - a.lowest(), (int64_t)a.pace());
  int64_t least = places + apart - zeros > places ? places + apart - zeros : places;
  least = ends > least ? ends : least;
  return least < places + apart ? least : places + apart;
}
// Packs of a row of results, which no row of cells cuts.
constexpr int V = PHASES_W == INNER ? ws::widest(OW, 4) : 1, ALIGNED = INNER == 2 ? (V + 1) / 2 : V;
constexpr int64_t CELLS_D = cells(AXIS_D, ID, OD), CELLS_H = cells(AXIS_H, IH, OH), CELLS_W = rounded(cells(AXIS_W, IW, OW), ALIGNED);
constexpr int64_t CELLS = CELLS_D * CELLS_H * CELLS_W, TOTAL = CELLS * IMAGES;
constexpr int CLASSES = PACE_D * PACE_H * PACE_W, CHANNEL_VECTOR_BYTES = 16;  // planes of 8 channels; bytes
constexpr int CHANNEL_VECTORS = CHUNK / 8, CHUNKS = (int)ws::ceil_div(INS, (int64_t)CHUNK), PLANES = (int)GROUPS * CHUNKS * CHANNEL_VECTORS * CLASSES;
static_assert(TOTAL + 4096 < 0x7fffffff && CELLS * PLANES < 0x7fffffff, "requires: images of fewer than 2^31 image_vectors");

// A band of taps reads one patch of the cells: taps of a row, of a plane, or all of them.
constexpr int KEYS = BAND == 0 ? KD * KH : BAND == 1 ? KD : 1, NEAR = BAND == 0 ? PACE_W : BAND == 1 ? PACE_H * PACE_W : CLASSES;
struct Tap {
  bool meets;
  int shift, kind;  // cells; the remainders
};
constexpr Tap tap_of(int list, int number) {
  const int outer = list / INNER, d = phase_d(outer), h = phase_h(outer), w = phase_w(outer, list % INNER);
  const int kd = number / (KH * KW), kh = number / KW % KH, kw = number % KW;
  if (!AXIS_D.meets(d, kd) || !AXIS_H.meets(h, kh) || !AXIS_W.meets(w, kw)) return {false, 0, 0};
  const int z = AXIS_D.reads(d, kd) - LOW_D, y = AXIS_H.reads(h, kh) - LOW_H, x = AXIS_W.reads(w, kw) - LOW_W;
  const int shift = (int)((z / PACE_D * CELLS_H + y / PACE_H) * CELLS_W + x / PACE_W);
  return {true, shift, (z % PACE_D * PACE_H + y % PACE_H) * PACE_W + x % PACE_W};
}
// `start`, `further`: the first shift of a band, and how much further the last one is; `kind`: its first remainder.
struct Bands {
  int first[OUTER + 1], key[OUTER * KEYS], start[OUTER * KEYS], kind[OUTER * KEYS], further;
};
constexpr Bands make_bands() {
  Bands made{};
  int n = 0;
  for (int outer = 0; outer < OUTER; outer++) {
    for (int key = 0; key < KEYS; key++) {
      int low = 1 << 30, high = -1;
      for (int list = outer * INNER; list < (outer + 1) * INNER; list++)
        for (int number = key * (TAPS / KEYS); number < (key + 1) * (TAPS / KEYS); number++) {
          const Tap tap = tap_of(list, number);
          if (!tap.meets) continue;
          low = tap.shift < low ? tap.shift : low, high = tap.shift > high ? tap.shift : high;
          made.kind[n] = tap.kind / NEAR * NEAR;
        }
      if (high < 0) continue;
      made.further = high - low > made.further ? high - low : made.further;
      made.key[n] = key, made.start[n++] = low;
    }
    made.first[outer + 1] = n;
  }
  return made;
}
static constexpr __constant__ Bands BANDS = make_bands();

// Slices of the weights in shared memory: where all of a block's are, they are fetched once.
constexpr int steps_of(int list, int key) {
  int taps = 0;
  for (int number = key * (TAPS / KEYS); number < (key + 1) * (TAPS / KEYS); number++) taps += tap_of(list, number).meets;
  return ws::ceil_div(taps * CHANNEL_VECTORS, 2);
}
constexpr int most_slices() {
  int most = 0;
  for (int outer = 0; outer < OUTER; outer++) {
    int sum = 0;
    for (int list = outer * INNER; list < (outer + 1) * INNER; list++)
      for (int key = 0; key < KEYS; key++) sum += ws::ceil_div(steps_of(list, key), K_STEPS_PER_STAGE);
    most = sum > most ? sum : most;
  }
  return most;
}
constexpr bool KEPT = STAGES >= most_slices() * CHUNKS;
constexpr int RING = KEPT ? most_slices() * CHUNKS : STAGES > 2 ? STAGES : 2;  // one is read while the next one comes
// Then consumer groups of warpgroups make tiles of their own, so that one multiplies while another stores.
constexpr int CONSUMER_GROUPS_USED = KEPT && WARPGROUPS % CONSUMER_GROUPS == 0 ? CONSUMER_GROUPS : 1, WARPGROUPS_PER_CONSUMER = WARPGROUPS / CONSUMER_GROUPS_USED;
constexpr int ROWS = 64 * MMA_TILES_M * WARPGROUPS_PER_CONSUMER;  // cells of a tile
constexpr int LENGTH = ROWS + BANDS.further, PATCH_BYTES = CHANNEL_VECTORS * NEAR * LENGTH * CHANNEL_VECTOR_BYTES;
constexpr int64_t FURTHEST = ((AXIS_D.highest() - LOW_D) / PACE_D * CELLS_H + (AXIS_H.highest() - LOW_H) / PACE_H) * CELLS_W + (AXIS_W.highest() - LOW_W) / PACE_W;
constexpr int64_t LINE = TOTAL + ROWS + 2 * FURTHEST;  // cells of a plane, with zeros behind them
static_assert(CHANNEL_VECTORS * NEAR * (int64_t)LENGTH < 1 << 14, "requires: patches that a descriptor can tell");

// The steps of each band and inner phase.
constexpr int ROOM = (TAPS * CHANNEL_VECTORS + OUTER * KEYS * INNER + 1) / 2 + 1;
struct Steps : Pairs<ROOM> {
  int first[OUTER * KEYS * INNER + 1] = {};
};
constexpr Steps make_steps() {
  Steps made{};
  for (int outer = 0; outer < OUTER; outer++)
    for (int band = BANDS.first[outer]; band < BANDS.first[outer + 1]; band++)
      for (int inner = 0; inner < INNER; inner++) {
        for (int number = BANDS.key[band] * (TAPS / KEYS); number < (BANDS.key[band] + 1) * (TAPS / KEYS); number++) {
          const Tap tap = tap_of(outer * INNER + inner, number);
          for (int plane = 0; tap.meets && plane < CHANNEL_VECTORS; plane++)
            made.add((plane * NEAR + tap.kind - BANDS.kind[band]) * LENGTH + tap.shift - BANDS.start[band], number * CHANNEL_VECTORS + plane);
        }
        made.end();
        made.first[band * INNER + inner + 1] = made.count;
      }
  return made;
}
static constexpr __constant__ Steps TABLE = make_steps();
// Steps of the outer phases before one, of one chunk.
constexpr int steps_before(int outer) { return TABLE.first[BANDS.first[outer] * INNER]; }
constexpr int ALL_STEPS = steps_before(OUTER);
constexpr int THREADS = 128 * WARPGROUPS + 32 * CONSUMER_GROUPS_USED, WARPS = 4 * WARPGROUPS, N = CHANNELS / 2;  // and warps that ask for copies
constexpr int STEP_BYTES = 2 * CHANNELS * CHANNEL_VECTOR_BYTES, SLICE_BYTES = K_STEPS_PER_STAGE * STEP_BYTES;
// A warpgroup's results on their way, so many channels of 64 cells at a time.
constexpr int ABREAST = WHOLE ? CHANNELS : CHANNELS % 32 == 0 ? 32 : CHANNELS % 24 == 0 ? 24 : CHANNELS % 16 == 0 ? 16 : 8;
constexpr int PASSES = CHANNELS / ABREAST, PITCH = 64 * INNER + 4, STAGED_BYTES = 4 * ABREAST * PITCH;
constexpr int HEAD_BYTES = rounded(16 * (RING + CONSUMER_GROUPS_USED * IMAGE_STAGES) + 8 * CHANNELS + 4 * CONSUMER_GROUPS_USED * IMAGE_STAGES, 128);  // barriers, scales, biases, tiles
constexpr int FIXED = HEAD_BYTES + RING * SLICE_BYTES + WARPGROUPS * STAGED_BYTES, FITTING = ((227 << 10) - FIXED) / (CONSUMER_GROUPS_USED * PATCH_BYTES);
static_assert(FIXED <= 227 << 10 && FITTING >= 2, "requires: patches that fit the shared memory");
constexpr int LIVE = IMAGE_STAGES < FITTING ? IMAGE_STAGES : FITTING, BARRIERS = 2 * (RING + CONSUMER_GROUPS_USED * LIVE);
constexpr int SHARED = FIXED + CONSUMER_GROUPS_USED * LIVE * PATCH_BYTES;  // results last: memory checkers take factors for 2048 bytes in a row
// Blocks stay, as many as run at once, each at one phase of one block of channels.
constexpr int SUMS = INNER * MMA_TILES_M * N, WANTED = SUMS <= 64 ? (WARPGROUPS > 2 ? 1 : 4 - WARPGROUPS) : WARPGROUPS > 1 ? 1 : 2;
constexpr int MIN_BLOCKS_PER_SM = WANTED < (227 << 10) / (SHARED + 1024) ? WANTED : (227 << 10) / (SHARED + 1024);
static_assert(!WHOLE || (GROUPS == 1 && BLOCKS_OUT == 1), "requires: all channels of a place in one block");
[[maybe_unused]] constexpr int64_t REDUCE = OUTS;
constexpr int64_t COMBOS = BLOCKS_OUT * OUTER * GROUPS, WORK = ws::ceil_div(TOTAL, (int64_t)ROWS);
constexpr int64_t SHARES = (int64_t)SM_COUNT * MIN_BLOCKS_PER_SM / COMBOS, TILES_PER_CONSUMER = ws::ceil_div(WORK, (int64_t)CONSUMER_GROUPS_USED);
constexpr int64_t ALONG = SHARES >= TILES_PER_CONSUMER ? TILES_PER_CONSUMER : SHARES < 1 ? 1 : SHARES;
// Blocks that cast to fp16: channel vectors of each; those of an image, and of the zeros behind all of them.
constexpr int64_t PART = 2048, PARTS = ws::ceil_div(CELLS * PLANES, PART), ZEROS = ws::ceil_div((LINE - TOTAL) * PLANES, PART);
constexpr int64_t RESCALE_BLOCKS = PARTS * IMAGES <= 1024 ? PARTS : IMAGES < 1024 ? 1024 / IMAGES : 1;  // of an image
// The workspace: packed weights, channel vectors, then exponents: of the weights, of the images, of samples of them, of parts; tile counters.
constexpr int64_t PACKED_BYTES = GROUPS * BLOCKS_OUT * CHUNKS * ALL_STEPS * STEP_BYTES, PACKED_IMAGE_BYTES = PLANES * LINE * CHANNEL_VECTOR_BYTES;
constexpr int64_t NUMBERS = OUTS * GROUPS + IMAGES * (2 + PARTS) + COMBOS;
static_assert(PACKED_BYTES + PACKED_IMAGE_BYTES + 4 * NUMBERS <= (int64_t)(WORKSPACE_BYTES), "the scratch memory");
