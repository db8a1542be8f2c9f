// warpsmith-unit: 1
// A thread has one column of outputs and STRIP of its rows: an input row's window is reduced once and serves all
// output rows whose window holds it. The rows of a warp overlap in the first-level cache.
// family: pooling   technique: row windows shared by the rows of a strip
// tunable: BLOCK = 128 {64, 128, 256}
// tunable: STRIP = 16 {8, 16, 32}
#include "task.h"
#include "warpsmith_cuda.h"

static constexpr int K = 4, PAD = 1;  // window; its stride is 1
static constexpr int64_t PLANES = in0_shape[0] * in0_shape[1];
static constexpr int H = in0_shape[2], W = in0_shape[3], OH = out0_shape[2], OW = out0_shape[3];
static constexpr int TILES = ws::ceil_div(OW, BLOCK), STRIPS = ws::ceil_div(OH, STRIP);

__device__ __forceinline__ float row_window(const float* x, int row, int column) {
  float best = -INFINITY;
  if (row < 0 || row >= H) return best;
#pragma unroll
  for (int k = 0; k < K; k++)
    if (column + k >= 0 && column + k < W) best = ws::Max::of(best, x[(int64_t)row * W + column + k]);
  return best;
}

__global__ void __launch_bounds__(BLOCK) max_pool(const float* x, float* y) {
  const int64_t tile = blockIdx.x % TILES, strip = blockIdx.x / TILES % STRIPS, plane = blockIdx.x / TILES / STRIPS;
  const int column = (int)tile * BLOCK + threadIdx.x, first = (int)strip * STRIP;
  if (column >= OW) return;
  x += plane * H * W;
  y += plane * OH * OW + column;
  float rows[STRIP + K - 1];
#pragma unroll
  for (int r = 0; r < STRIP + K - 1; r++) rows[r] = row_window(x, first + r - PAD, column - PAD);
#pragma unroll
  for (int r = 0; r < STRIP; r++) {
    float best = rows[r];
#pragma unroll
    for (int k = 1; k < K; k++) best = ws::Max::of(best, rows[r + k]);
    if (first + r < OH) y[(int64_t)(first + r) * OW] = best;
  }
}

static void unit(const in0_t* x, out0_t* y, void*, void* stream) {
  max_pool<<<(unsigned)(PLANES * STRIPS * TILES), BLOCK, 0, (cudaStream_t)stream>>>(x, y);
}
