// warpsmith-unit: 1
// A block brings a piece of a row to shared memory once; neighbouring threads take neighbouring windows from there.
// family: pooling   technique: windows from shared memory
// tunable: BLOCK = 256 {128, 256, 512}
// tunable: EACH = 8 {4, 8}
#include "task.h"
#include "warpsmith_cuda.h"

static constexpr int K = 8, PAD = 4;  // window; its stride is 1, and padding counts
static constexpr int64_t ROWS = in0_shape[0] * in0_shape[1], L = in0_shape[2], OL = out0_shape[2];
static constexpr int SPAN = BLOCK * EACH;
static constexpr int64_t TILES = ws::ceil_div(OL, SPAN);

__global__ void __launch_bounds__(BLOCK) average_pool(const float* x, float* y) {
  __shared__ float piece[SPAN + K - 1];
  const int64_t row = blockIdx.x / TILES, first = blockIdx.x % TILES * SPAN;
  x += row * L;
  y += row * OL;
#pragma unroll
  for (int u = 0; u < EACH + 1; u++) {
    const int i = u * BLOCK + threadIdx.x;
    const int64_t at = first - PAD + i;
    if (i < SPAN + K - 1) piece[i] = at >= 0 && at < L ? x[at] : 0.0f;
  }
  __syncthreads();
  // Thread by thread, so that neighbours write neighbours; shared memory serves the overlap.
#pragma unroll
  for (int u = 0; u < EACH; u++) {
    const int i = u * BLOCK + threadIdx.x;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < K; k++) sum += piece[i + k];
    if (first + i < OL) y[first + i] = sum / K;
  }
}

static void unit(const in0_t* x, out0_t* y, void*, void* stream) {
  average_pool<<<(unsigned)(ROWS * TILES), BLOCK, 0, (cudaStream_t)stream>>>(x, y);
}
