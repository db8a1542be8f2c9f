// warpsmith-unit: 1
// Running sums from the end of each row: no flipped copy is made.
// A block a row, a chunk at a time: a warp scans tiles of 128 neighbours, each lane four of them; the warps' totals
// meet in shared memory, once a chunk. The next chunk is loaded before the current one is scanned.
// family: scan   technique: a block a row from its end, warp scans, next chunk in flight
// tunable: WARPS = 8 {4, 8, 16}
// tunable: TILES = 4 {2, 4, 8}
#include "task.h"
#include "warpsmith_cuda.h"

static constexpr int64_t ROWS = in0_shape[0], N = in0_shape[1];
static constexpr int TILE = 128, SPAN = TILES * TILE, CHUNK = WARPS * SPAN;

// Position i of the scan is position N - 1 - i of the row: four of the row, turned around.
__device__ __forceinline__ void load4(float (&v)[4], const float* x, int64_t i) {
  if constexpr (N % 4 == 0) {
    const ws::Pack<float, 4> four = i < N ? ws::load_pack<4>(x + N - 4 - i) : ws::Pack<float, 4>{};
#pragma unroll
    for (int j = 0; j < 4; j++) v[j] = four.at[3 - j];
  } else {
#pragma unroll
    for (int j = 0; j < 4; j++) v[j] = i + j < N ? x[N - 1 - i - j] : 0.0f;
  }
}

__device__ __forceinline__ void store4(float* y, int64_t i, const float (&v)[4]) {
  if constexpr (N % 4 == 0) {
    if (i < N) ws::store_pack<4>(y + N - 4 - i, ws::Pack<float, 4>{{v[3], v[2], v[1], v[0]}});
  } else {
#pragma unroll
    for (int j = 0; j < 4; j++)
      if (i + j < N) y[N - 1 - i - j] = v[j];
  }
}

// What each lane's predecessors sum to; never total minus own, which infinities would spoil.
__device__ __forceinline__ float exclusive(float own, float& total) {
  const int lane = threadIdx.x % 32;
  float sum = own;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float before = __shfl_up_sync(ws::FULL, sum, step);
    if (lane >= step) sum += before;
  }
  total = __shfl_sync(ws::FULL, sum, 31);
  const float before = __shfl_up_sync(ws::FULL, sum, 1);
  return lane == 0 ? 0.0f : before;
}

__global__ void __launch_bounds__(WARPS * 32) scan(const float* x, float* y) {
  __shared__ float totals[2][WARPS];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t offset = (int64_t)blockIdx.x * N;
  float carry = 0.0f, next[TILES][4];
#pragma unroll
  for (int t = 0; t < TILES; t++) load4(next[t], x + offset, warp * SPAN + t * TILE + 4 * lane);
  int turn = 0;
  for (int64_t chunk = 0; chunk < N; chunk += CHUNK, turn ^= 1) {
    float v[TILES][4], before[TILES], running = 0.0f;
    const int64_t start = chunk + warp * SPAN + 4 * lane;
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
      for (int j = 0; j < 4; j++) v[t][j] = next[t][j];
#pragma unroll
    for (int t = 0; t < TILES; t++) load4(next[t], x + offset, start + CHUNK + t * TILE);
#pragma unroll
    for (int t = 0; t < TILES; t++) {
      float total;
#pragma unroll
      for (int j = 1; j < 4; j++) v[t][j] += v[t][j - 1];
      before[t] = running + exclusive(v[t][3], total);
      running += total;
    }
    if (lane == 0) totals[turn][warp] = running;
    __syncthreads();  // one is enough: the next chunk writes the other half
    float base = carry;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
      if (w == warp) base = carry;
      carry += totals[turn][w];
    }
#pragma unroll
    for (int t = 0; t < TILES; t++) {
#pragma unroll
      for (int j = 0; j < 4; j++) v[t][j] += base + before[t];
      store4(y + offset, start + t * TILE, v[t]);
    }
  }
}

static void unit(const in0_t* x, out0_t* y, void*, void* stream) {
  scan<<<(unsigned)ROWS, WARPS * 32, 0, (cudaStream_t)stream>>>(x, y);
}
