// warpsmith-unit: 1
// x times its sigmoid in one pass.
// family: elementwise   technique: one pass, 16 bytes a load
// tunable: BLOCK = 256 {128, 256, 512}
// tunable: UNROLL = 4 {1, 2, 4, 8}
#include "task.h"
#include "warpsmith_cuda.h"

static constexpr int64_t N = in0_numel, WHOLE = N / 4;

__device__ __forceinline__ float f(float x) {
  return x * (1.0f / (1.0f + expf(-x)));
}

__global__ void __launch_bounds__(BLOCK) apply(const float* x, float* y) {
  const int64_t first = (int64_t)blockIdx.x * BLOCK * UNROLL + threadIdx.x;
  const float4* from = reinterpret_cast<const float4*>(x);
  float4 v[UNROLL];
#pragma unroll
  for (int u = 0; u < UNROLL; u++)
    if (first + u * BLOCK < WHOLE) v[u] = __ldcs(from + first + u * BLOCK);
#pragma unroll
  for (int u = 0; u < UNROLL; u++)
    if (first + u * BLOCK < WHOLE)
      __stcs(reinterpret_cast<float4*>(y) + first + u * BLOCK, make_float4(f(v[u].x), f(v[u].y), f(v[u].z), f(v[u].w)));
  // Up to three elements are left: the first threads of all take them.
  if (first < N % 4) y[4 * WHOLE + first] = f(x[4 * WHOLE + first]);
}

static void unit(const in0_t* x, out0_t* y, void*, void* stream) {
  apply<<<(unsigned)ws::ceil_div(WHOLE + 1, BLOCK * UNROLL), BLOCK, 0, (cudaStream_t)stream>>>(x, y);
}
