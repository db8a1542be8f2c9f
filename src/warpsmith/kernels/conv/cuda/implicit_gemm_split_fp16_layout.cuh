//! Shared-memory layout and schedule of the fp16 wgmma implicit GEMM: 8-channel 16-byte vectors, K steps, ring of
//! weight slices, occupancy, persistent grid, workspace. Limit: 227 KiB a block. $slice_counts:
//! implicit_gemm_slice_counts.cuh.
// Eight terms of the sum lie together, an channel vector: of 8 channels at one tap or, where there are few channels, of REACH taps
// side by side. What is beyond the last channel or tap is zero, in the image as in the weights: planes of channel vectors that
// begin REACH taps, and one of what is left of a row of taps.
constexpr int FEW = TRANSPOSED || INS > 4 ? 8 : INS > 2 ? 4 : (int)INS, REACH = 8 / FEW, LEFT = KW % REACH;
constexpr int DEPTH = INS < CHUNK ? rounded((int)INS, 8) : CHUNK, CHUNKS = REACH > 1 ? 1 : (int)ws::ceil_div(INS, (int64_t)DEPTH);
constexpr int CHANNEL_VECTORS = REACH == 1 ? DEPTH / 8 : (KW >= REACH) + (LEFT != 0), CHANNEL_VECTOR_BYTES = 16;  // planes; bytes
constexpr int ITEMS = CHANNEL_VECTORS * PLANE;

// The steps of each list (an outer phase, an inner phase).
constexpr int ROOM = (TAPS * CHANNEL_VECTORS + LISTS + 1) / 2 + 1;
struct Steps : Pairs<ROOM> {
  int first[LISTS + 1] = {};
  constexpr int steps(int list) const { return first[list + 1] - first[list]; }
  constexpr int slices(int list) const { return ws::ceil_div(steps(list), K_STEPS_PER_STAGE); }
$slice_counts
  constexpr int most() const {
    int found = 0;
    for (int i = 0; i < OUTER; i++) found = slices_of(i) > found ? slices_of(i) : found;
    return found;
  }
};
constexpr Steps make_steps() {
  Steps made{};
  for (int list = 0; list < LISTS; list++) {
    const int d = phase_d(list / INNER), h = phase_h(list / INNER), w = phase_w(list / INNER, list % INNER);
    for (int number = 0; number < TAPS; number++) {
      const int kd = number / (KH * KW), kh = number / KW % KH, kw = number % KW;
      if (!AXIS_D.meets(d, kd) || !AXIS_H.meets(h, kh) || !AXIS_W.meets(w, kw) || kw % REACH != 0) continue;
      const int column = AXIS_W.reads(w, kw) - LOW_W;
      const int row = (AXIS_D.reads(d, kd) - LOW_D) * SPAN_H + AXIS_H.reads(h, kh) - LOW_H;
      const int only = kw + REACH <= KW ? 0 : CHANNEL_VECTORS - 1;  // the plane, where an channel vector is several taps
      for (int plane = REACH == 1 ? 0 : only; plane < (REACH == 1 ? CHANNEL_VECTORS : only + 1); plane++) {
        made.add(plane * PLANE + row * ROW + column % PACE_W * HALF + column / PACE_W, number * CHANNEL_VECTORS + plane);
      }
    }
    made.end();
    made.first[list + 1] = made.count;
  }
  return made;
}
static constexpr __constant__ Steps TABLE = make_steps();
constexpr int ALL_SLICES = TABLE.before(OUTER) * CHUNKS;

// Warpgroups one after the other over the pixels, 64 of a product at a time.
constexpr bool SQUARE = TILE_H % 8 == 0;  // 8 x 8 of them, not 64 of a row
constexpr int ACROSS = TILE_W / (SQUARE ? 8 : 64), DOWN = TILE_H / (SQUARE ? 8 : 1);
constexpr int GROUPS_M = WARPGROUPS < TILE_PIXELS / 64 ? WARPGROUPS : TILE_PIXELS / 64, MMA_TILES_M = TILE_PIXELS / 64 / GROUPS_M, N = CHANNELS / 2;
constexpr int THREADS = 128 * GROUPS_M, WARPS = THREADS / 32;
constexpr int SUMS = (INNER + (TERMS == 3)) * MMA_TILES_M * N, WANTED = (SUMS <= 64 ? 512 : 256) / THREADS, RESIDENT = WANTED > 0 ? WANTED : 1;
// Items of the patch that a thread keeps in registers from when it asks for them until they are halves.
constexpr int MOST_HELD = SUMS <= 32 ? 4 : 3, PER_THREAD = ws::ceil_div(ITEMS, THREADS), HELD = PER_THREAD < MOST_HELD ? PER_THREAD : MOST_HELD;
// Powers of two that the others may be larger by than those that are held, before the patch is made anew.
constexpr int ROOM_ABOVE = PER_THREAD > HELD ? 4 : 0;

// A step of the weights: channel vector by channel vector, high parts and then low ones, all channels of each. Bytes.
constexpr int PARTS = TERMS == 3 ? 2 : 1, STEP_BYTES = PARTS * 2 * CHANNELS * CHANNEL_VECTOR_BYTES, SLICE_BYTES = K_STEPS_PER_STAGE * STEP_BYTES;
constexpr int IMAGE_BYTES = ITEMS * CHANNEL_VECTOR_BYTES;
// Slices of the weights in shared memory: where all of a block's are, they are fetched once; else one comes while another is
// used.
constexpr bool KEPT = STAGES >= TABLE.most() * CHUNKS;
constexpr int RING = KEPT || STAGES > 1 ? STAGES : 2;
constexpr int HEAD_BYTES = rounded(16 * RING + 4 * WARPS + 4 * CHANNELS, 128);  // barriers, largest elements, powers
constexpr int PLACE_BYTES = rounded(4 * PLANE, 16), PATCH_BYTES = PARTS * IMAGE_BYTES, STAGING = 4 * CHANNELS * STAGED;
constexpr int USED = HEAD_BYTES + PLACE_BYTES + RING * SLICE_BYTES + (PATCH_BYTES > STAGING ? PATCH_BYTES : STAGING);
static_assert(USED <= 227 << 10, "requires: a patch that fits the shared memory");
// Blocks stay, as many as run at once, each at one phase of one block of channels.
constexpr int MIN_BLOCKS_PER_SM = RESIDENT < (227 << 10) / (USED + 1024) ? RESIDENT : (227 << 10) / (USED + 1024);
// Memory checkers take a product's first factor for 2048 bytes in a row, wherever its rows lie: they find those here.
constexpr int SHARED = USED + (MIN_BLOCKS_PER_SM * (USED + 2048 + 1024) <= 227 << 10 ? 2048 : 0);
constexpr int64_t COMBOS = BLOCKS_OUT * OUTER * GROUPS, WORK = TILES_W * TILES_H * TILES_D * IMAGES;
constexpr int64_t SHARES = (int64_t)SM_COUNT * MIN_BLOCKS_PER_SM / COMBOS, ALONG = SHARES >= WORK ? WORK : SHARES < 1 ? 1 : SHARES;
constexpr int64_t PACKED_BYTES = ALL_SLICES * BLOCKS_OUT * GROUPS * SLICE_BYTES;
constexpr uint64_t SPARE_AT = (PACKED_BYTES + 4 * OUTS * GROUPS + 255) / 256 * 256;
