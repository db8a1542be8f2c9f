//! Persistent, warp-specialised 3xfp16 GEMM (sm_90a wgmma). Tiles of 128 x 128 from split factors through a STAGES-deep
//! mbarrier ring; two consumer warpgroups; static tile schedule grouped for the L2 cache, split-K; every K slice of 64
//! starts from zero and is added in fp32 while the next one is under way: as exact as fp32. Limit: fewer than 2^31
//! tiles. $threads, $feeders, $fed, $read, $registers: roles of warps; $feed: the producer; $some: accumulators;
//! $multiply: the main loop; $give: release of a stage.

constexpr int STAGE = 2 * (IMAGE + SCALES), PITCH = 40, STAGING = 8 * 16 * PITCH * 4;  // bytes
constexpr int SHARED = 1024 + STAGES * STAGE + STAGING + 2 * STAGES * 8;
static_assert(STAGE % 1024 == 0, "the swizzle repeats every 1024 bytes");
constexpr int THREADS = $threads;  // two warpgroups that multiply, $feeders

// A piece of work: a tile of the product, or the part of its sums that some slices make up.
struct Piece {
  int64_t b, m, n, left, right;  // left, right: the factors' first images
  int part, slices;
};
__device__ __forceinline__ Piece piece(unsigned number) {
  // Blocks that run together share rows and columns: GROUP tiles down, then over.
  constexpr unsigned EACH = TILES > 0 ? (unsigned)TILES : 1, AREA = DOWN * OVER > 0 ? (unsigned)(DOWN * OVER) : 1;
  constexpr unsigned WIDE = OVER > 0 ? GROUP * (unsigned)OVER : 1;
  const unsigned tile = number % EACH % AREA, above = tile / WIDE * GROUP;
  const unsigned high = (unsigned)DOWN - above < GROUP ? (unsigned)DOWN - above : GROUP;
  const unsigned down = above + tile % WIDE % high, over = tile % WIDE / high;
  Piece p;
  p.b = number % EACH / AREA, p.m = (int64_t)down * TILE, p.n = (int64_t)over * TILE, p.part = (int)(number / EACH);
  const int64_t first = p.part * SHARE, last = first + SHARE < SLICES ? first + SHARE : SLICES;
  p.slices = outside(p.m, p.m + TILE - 1, p.n, p.n + TILE - 1) || last < first ? 0 : (int)(last - first);
  p.left = (p.b * DOWN + down) * SLICES + first, p.right = LEFT_IMAGES + (p.b * OVER + over) * SLICES + first;
  return p;
}

__global__ void __launch_bounds__(THREADS, 1) product(Operands o, const unsigned char* images, float* partial) {
  unsigned char* const stages = ws::aligned_shared<1024>(ws::dynamic_shared());
  float* const staging = reinterpret_cast<float*>(stages + STAGES * STAGE);
  ws::Barrier* const full = reinterpret_cast<ws::Barrier*>(stages + STAGES * STAGE + STAGING);
  ws::Barrier* const empty = full + STAGES;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; s++) ws::barrier_init(full + s, $fed), ws::barrier_init(empty + s, $read);
    ws::barrier_ready();
  }
  __syncthreads();
  int stage = 0;
  uint32_t phase = 0;
  if (threadIdx.x >= 256) {
$feed
    return;
  }
  ws::registers_more<$registers>();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  float* const mine = staging + warp * 16 * PITCH;
$some
  float sums[64];
  const auto begin = [&](float (&to)[64]) {
    const unsigned char* const stage_base = stages + stage * STAGE;
    ws::barrier_wait(full + stage, phase);
    constexpr uint64_t LOW = IMAGE / 2 >> 4;  // from a factor's high part to its low one, as descriptors count
    const uint64_t left = ws::tile_descriptor(stage_base + warp / 4 * 64 * 128), right = ws::tile_descriptor(stage_base + IMAGE);
    ws::products_begin();
#pragma unroll
    for (int k = 0; k < 4; k++) ws::product_64x128(to, left + LOW + 2 * k, right + 2 * k, k > 0);
#pragma unroll
    for (int k = 0; k < 4; k++) ws::product_64x128(to, left + 2 * k, right + LOW + 2 * k, true);
#pragma unroll
    for (int k = 0; k < 4; k++) ws::product_64x128(to, left + 2 * k, right + 2 * k, true);
    ws::products_commit();
    if (++stage == STAGES) stage = 0, phase ^= 1;
  };
  int behind = 0;  // the stage of the slice to add
  const auto add = [&](const float (&from)[64]) {
    const unsigned char* const stage_base = stages + behind * STAGE;
    const float* const rows = reinterpret_cast<const float*>(stage_base + 2 * IMAGE) + warp * 16 + g;
    const float* const columns = reinterpret_cast<const float*>(stage_base + 2 * IMAGE + SCALES) + 2 * t;
    const float upper = rows[0], lower = rows[8];
#pragma unroll
    for (int j = 0; j < 16; j++) {
      const ws::Pack<float, 2> own = ws::load_pack<2>(columns + 8 * j);
#pragma unroll
      for (int i = 0; i < 4; i++) sums[4 * j + i] = fmaf(from[4 * j + i] * (i < 2 ? upper : lower), own.at[i % 2], sums[4 * j + i]);
    }
$give
    if (++behind == STAGES) behind = 0;
  };
  for (unsigned number = blockIdx.x; number < (unsigned)WORK; number += BLOCKS) {
    const Piece p = piece(number);
#pragma unroll
    for (int i = 0; i < 64; i++) sums[i] = 0.0f;
    if (p.slices > 0) {
$multiply
    }
#pragma unroll
    for (int quarter = 0; quarter < 4; quarter++) {  // 16 x 32 results at a time, so that a row's neighbours go together
#pragma unroll
      for (int j = 0; j < 4; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const int at = 4 * (4 * quarter + j) + 2 * h;
          ws::store_pack<2>(mine + (g + 8 * h) * PITCH + 8 * j + 2 * t, ws::Pack<float, 2>{{sums[at], sums[at + 1]}});
        }
      __syncwarp();
      constexpr int V = OUT_VEC;
#pragma unroll 1
      for (int i = lane; i < 16 * 32 / V; i += 32) {
        const int row = i / (32 / V), column = i % (32 / V) * V;
        const int64_t m = p.m + warp * 16 + row, n = p.n + 32 * quarter + column;
        if (m >= M || n >= N) continue;
        const ws::Pack<float, V> whole = ws::load_pack<V>(mine + row * PITCH + column);
        if constexpr (PARTS == 1) finish<V>(o, p.b, m, n, whole);
        else ws::store_pack<V>(partial + ((p.part * BATCH + p.b) * M + m) * N + n, whole);
      }
      __syncwarp();
    }
  }
}
