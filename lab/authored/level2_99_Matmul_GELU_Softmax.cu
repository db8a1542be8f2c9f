// warpsmith-unit: 1
// What follows the library's matrix product: a block takes a row into registers, so that GELU is computed once an
// element and the row is read once.
// covers: gelu _softmax
// family: softmax   technique: epilogue fused, row in registers
// tunable: BLOCK = 256 {128, 256, 512}
#include "task.h"
#include "warpsmith_cuda.h"

static constexpr int64_t ROWS = in0_shape[0], N = in0_shape[1];
static constexpr int VEC = N % 4 == 0 ? 4 : 1, EACH = ws::ceil_div(N / VEC, BLOCK);
using Chunk = ws::Pack<float, VEC>;

__device__ __forceinline__ float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f)); }

__global__ void __launch_bounds__(BLOCK) gelu_softmax(const float* x, float* y) {
  x += blockIdx.x * N;
  y += blockIdx.x * N;
  Chunk v[EACH];
  float top = -INFINITY, sum = 0.0f;
#pragma unroll
  for (int u = 0; u < EACH; u++) {
    const int64_t i = u * BLOCK + threadIdx.x;
    if (i < N / VEC) v[u] = ws::load_pack<VEC>(x + i * VEC);
  }
#pragma unroll
  for (int u = 0; u < EACH; u++) {
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      v[u].at[j] = u * BLOCK + threadIdx.x < N / VEC ? gelu(v[u].at[j]) : -INFINITY;
      top = ws::Max::of(top, v[u].at[j]);
    }
  }
  top = ws::block_max(top);
#pragma unroll
  for (int u = 0; u < EACH; u++) {
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      v[u].at[j] = expf(v[u].at[j] - top);
      sum += v[u].at[j];
    }
  }
  sum = ws::block_sum(sum);
#pragma unroll
  for (int u = 0; u < EACH; u++) {
    const int64_t i = u * BLOCK + threadIdx.x;
#pragma unroll
    for (int j = 0; j < VEC; j++) v[u].at[j] /= sum;
    if (i < N / VEC) ws::store_pack<VEC>(y + i * VEC, v[u]);
  }
}

static void unit(const in0_t* x, out0_t* y, void*, void* stream) {
  gelu_softmax<<<(unsigned)ROWS, BLOCK, 0, (cudaStream_t)stream>>>(x, y);
}
