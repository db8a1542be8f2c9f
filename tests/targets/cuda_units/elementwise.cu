// warpsmith-unit: 1
// family: elementwise   technique: grid-stride, 16-byte accesses
// tunable: BLOCK = 256 {128, 256, 512}
// requires: in0_numel % 8 == 0
#include "task.h"
#include "warpsmith_cuda.h"

// y = gelu(x) * 2, the exact gelu.
static constexpr int N = ws::PER_16_BYTES<in0_t>;

__global__ void __launch_bounds__(BLOCK) chain(const in0_t* x, out0_t* y) {
  const int64_t stride = (int64_t)gridDim.x * BLOCK * N;
  for (int64_t i = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) * N; i < in0_numel; i += stride) {
    const auto in = ws::load_pack<N>(x + i);
    ws::Pack<out0_t, N> out;
#pragma unroll
    for (int j = 0; j < N; j++) {
      const float v = ws::load_as(in.at[j]);
      out.at[j] = ws::store_as<out0_t>(v * (1.0f + erff(v * 0.70710678f)));
    }
    ws::store_pack<N>(y + i, out);
  }
}

static void unit(const in0_t* in0, out0_t* out0, void*, void* stream) {
  const int64_t blocks = ws::ceil_div(in0_numel, (int64_t)BLOCK * N);
  chain<<<(unsigned)(blocks < 4096 ? blocks : 4096), BLOCK, 0, (cudaStream_t)stream>>>(in0, out0);
}
