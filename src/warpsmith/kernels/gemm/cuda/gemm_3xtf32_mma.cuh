//! 3xTF32 GEMM, mma.sync (sm_80 on). Both factors by cp.async through a STAGES-deep ring, fragments by ldmatrix; block
//! tile BM x BN, warp tile WM x 32, tiles grouped for the L2 cache, split-K; each K step of 8 starts from zero and is
//! added in fp32, so that the tensor cores' truncation does not accumulate: as exact as fp32. $left, $right: operands
//! of the factors.

constexpr int WN = 32, THREADS = BM / WM * (BN / WN) * 32, MTILES = WM / 16, NTILES = WN / 8;
static_assert(BM % WM == 0 && BN % WN == 0 && WM % 32 == 0 && BK % 8 == 0, "whole fragments");
#if WM == 32 && BM * BN < 512 * WM  // of small warps 16 fit a multiprocessor
#define TOGETHER , 512 / THREADS
#else
#define TOGETHER
#endif
constexpr int LEFT_PITCH = LEFT_ACROSS ? BM + 8 : BK + 4, RIGHT_PITCH = RIGHT_ACROSS ? BN + 8 : BK + 4;
constexpr int LEFT_FLOATS = (LEFT_ACROSS ? BK : BM) * LEFT_PITCH, RIGHT_FLOATS = (RIGHT_ACROSS ? BK : BN) * RIGHT_PITCH;
constexpr int STAGE = LEFT_FLOATS + RIGHT_FLOATS, TILE_PITCH = BN + 8;
constexpr int SHARED = 4 * (STAGES * STAGE > BM * TILE_PITCH ? STAGES * STAGE : BM * TILE_PITCH);
constexpr int64_t DOWN = ws::ceil_div(M, (int64_t)BM), OVER = ws::ceil_div(N, (int64_t)BN), BLOCKS = BATCH * DOWN * OVER;
static_assert(BLOCKS * PARTS < 0x7fffffff, "requires: fewer than 2^31 tiles");

// A slice of a factor on its way to shared memory: TILE rows of BK terms, of which the first `rows` and `depth` exist.
// `from`: the first of both; `row(r)`: how far on row r begins.
template <int TILE, bool ACROSS, int COPY, int PITCH, int64_t STEP, class Row>
__device__ __forceinline__ void load(float* to, const float* from, int rows, int depth, const Row& row) {
  constexpr int LINE = (ACROSS ? TILE : BK) / COPY, LINES = ACROSS ? BK : TILE, CHUNKS = LINE * LINES;
#pragma unroll
  for (int i = 0; i < ws::ceil_div(CHUNKS, THREADS); i++) {
    int line, in;
    if constexpr (THREADS % LINE == 0) {
      line = threadIdx.x / LINE + i * (THREADS / LINE);
      in = threadIdx.x % LINE * COPY;
    } else {
      line = (i * THREADS + (int)threadIdx.x) / LINE;
      in = (i * THREADS + (int)threadIdx.x) % LINE * COPY;
    }
    if (CHUNKS % THREADS != 0 && line >= LINES) break;
    const int r = ACROSS ? in : line, k = ACROSS ? line : in;
    const bool there = r < rows && k < depth;
    ws::copy_async<4 * COPY>(to + line * PITCH + in, from + row(r) + k * STEP, there);
  }
}

// The fragments of a warp at term k of a slice, as they lie in memory.
struct Raw {
  uint32_t left[MTILES][4], right[NTILES][2];
};
__device__ __forceinline__ void fetch(Raw& raw, const float* left, const float* right, int m, int n, int k) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < MTILES; i++) {
    if constexpr (LEFT_ACROSS) {
#pragma unroll
      for (int j = 0; j < 4; j++) memcpy(&raw.left[i][j], left + (k + t + j / 2 * 4) * LEFT_PITCH + m + i * 16 + g + j % 2 * 8, 4);
    } else {
      ws::ldmatrix_x4(raw.left[i], left + (m + i * 16 + lane % 16) * LEFT_PITCH + k + lane / 16 * 4);
    }
  }
#pragma unroll
  for (int i = 0; i < NTILES; i += 2) {
    uint32_t four[4];
    if constexpr (RIGHT_ACROSS) {
#pragma unroll
      for (int j = 0; j < 4; j++) memcpy(&four[j], right + (k + t + j % 2 * 4) * RIGHT_PITCH + n + (i + j / 2) * 8 + g, 4);
    } else {
      ws::ldmatrix_x4(four, right + (n + (i + lane / 16) * 8 + lane % 8) * RIGHT_PITCH + k + lane / 8 % 2 * 4);
    }
#pragma unroll
    for (int j = 0; j < 4; j++) raw.right[i + j / 2][j % 2] = four[j];
  }
}
template <int COUNT>
__device__ __forceinline__ void split(const uint32_t (&raw)[COUNT], uint32_t (&high)[COUNT], uint32_t (&low)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    float x;
    memcpy(&x, &raw[i], 4);
    ws::tf32_split(x, high[i], low[i]);
  }
}
// Eight more terms; small products first.
__device__ __forceinline__ void multiply(float (&sums)[MTILES][NTILES][4], const Raw& raw) {
  uint32_t right_high[NTILES][2], right_low[NTILES][2];
#pragma unroll
  for (int j = 0; j < NTILES; j++) split(raw.right[j], right_high[j], right_low[j]);
#pragma unroll
  for (int i = 0; i < MTILES; i += 2) {
    uint32_t high[2][4], low[2][4];
    float some[2][NTILES][4] = {};
#pragma unroll
    for (int h = 0; h < 2; h++) split(raw.left[i + h], high[h], low[h]);
    // Term by term over eight tiles: by the next term of a tile its last one has come out.
#pragma unroll
    for (int term = 0; term < 3; term++)
#pragma unroll
      for (int c = 0; c < 2 * NTILES; c++)
        ws::mma_tf32(some[c / NTILES][c % NTILES], term == 0 ? low[c / NTILES] : high[c / NTILES], term == 1 ? right_low[c % NTILES] : right_high[c % NTILES]);
#pragma unroll
    for (int c = 0; c < 2 * NTILES; c++)
#pragma unroll
      for (int v = 0; v < 4; v++) sums[i + c / NTILES][c % NTILES][v] += some[c / NTILES][c % NTILES][v];
  }
}

__global__ void __launch_bounds__(THREADS TOGETHER) product(Operands o, float* partial) {
  float* const memory = reinterpret_cast<float*>(ws::dynamic_shared());
  // Blocks that run together share rows and columns: GROUP tiles down, then over.
  constexpr unsigned GROUP = 8, TILES = DOWN * OVER > 0 ? (unsigned)(DOWN * OVER) : 1, WIDE = GROUP * (OVER > 0 ? (unsigned)OVER : 1);
  const int part = (int)(blockIdx.x / (unsigned)(BLOCKS > 0 ? BLOCKS : 1));
  const unsigned number = blockIdx.x % (unsigned)(BLOCKS > 0 ? BLOCKS : 1), tile = number % TILES;
  const unsigned above = tile / WIDE * GROUP, high = (unsigned)DOWN - above < GROUP ? (unsigned)DOWN - above : GROUP;
  const int64_t b = number / TILES, m = (int64_t)(above + tile % WIDE % high) * BM, n = (int64_t)(tile % WIDE / high) * BN;
  const int64_t start = part * SHARE * BK, end = start + SHARE * BK < K ? start + SHARE * BK : K;
  const bool needed = !outside(m, m + BM - 1, n, n + BN - 1) && start < end;
  const int slices = needed ? (int)ws::ceil_div(end - start, (int64_t)BK) : 0;

  const float* const left = o.$left + (LEFT_EVEN ? left_at(b, 0) + m * LEFT_M : 0) + start * LEFT_K;
  const float* const right = o.$right + right_at(b, 0) + n * RIGHT_N + start * RIGHT_K;
  const int rows = (int)(M - m < BM ? M - m : BM), columns = (int)(N - n < BN ? N - n : BN);
  const auto bring = [&](int slice) {
    if (slice < slices) {
      float* const to = memory + slice % STAGES * STAGE;
      const int64_t done = (int64_t)slice * BK;
      const int depth = (int)(end - start - done < BK ? end - start - done : BK);
      load<BM, LEFT_ACROSS, LEFT_VEC, LEFT_PITCH, LEFT_K>(to, left + done * LEFT_K, rows, depth, [&](int r) {
        return LEFT_EVEN ? r * LEFT_M : left_at(b, m + (r < rows ? r : 0));
      });
      load<BN, RIGHT_ACROSS, RIGHT_VEC, RIGHT_PITCH, RIGHT_K>(
          to + LEFT_FLOATS, right + done * RIGHT_K, columns, depth, [](int r) { return r * RIGHT_N; });
    }
    ws::copy_commit();
  };

  const int warp = threadIdx.x / 32, wm = warp % (BM / WM) * WM, wn = warp / (BM / WM) * WN;
  float sums[MTILES][NTILES][4] = {};
#pragma unroll
  for (int s = 0; s < STAGES - 1; s++) bring(s);
  for (int slice = 0; slice < slices; slice++) {
    ws::copy_wait<STAGES - 2>();
    __syncthreads();  // the slice is here, and nobody reads the one before it any more
    bring(slice + STAGES - 1);
    const float* const at = memory + slice % STAGES * STAGE;
#pragma unroll
    for (int k = 0; k < BK; k += 8) {
      Raw raw;
      fetch(raw, at, at + LEFT_FLOATS, wm, wn, k);
      multiply(sums, raw);
    }
  }
  ws::copy_wait<0>();
  __syncthreads();
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < MTILES; i++)
#pragma unroll
    for (int j = 0; j < NTILES; j++)
#pragma unroll
      for (int h = 0; h < 2; h++)
        ws::store_pack<2>(memory + (wm + i * 16 + h * 8 + g) * TILE_PITCH + wn + j * 8 + 2 * t,
                          ws::Pack<float, 2>{{sums[i][j][2 * h], sums[i][j][2 * h + 1]}});
  __syncthreads();
  store_tile<BM, BN, TILE_PITCH, THREADS>(o, memory, b, m, n, partial + part * BATCH * M * N);
}
