// warpsmith-unit: 1
// What follows the library's matrix product. A lane has four neighbouring channels; the lanes of a group exchange their
// sums, so that each element is read once and written once.
// covers: native_group_norm leaky_relu add
// family: norm   technique: epilogue fused, groups within a warp
// requires: in0_shape[1] == 8192
// tunable: BLOCK = 256 {128, 256, 512}
#include "task.h"
#include "warpsmith_cuda.h"

static constexpr int64_t ROWS = in0_shape[0], N = in0_shape[1];
static constexpr int GROUPS = 512, SIZE = N / GROUPS, LANES = SIZE / 4;
static constexpr float EPSILON = 1e-5f;

__device__ __forceinline__ float group_sum(float x) {
#pragma unroll
  for (int step = 1; step < LANES; step *= 2) x += __shfl_xor_sync(ws::FULL, x, step);
  return x;
}

// N is a multiple of 128, so that the warps of the last block are inside or outside as a whole.
__global__ void __launch_bounds__(BLOCK) epilogue(const float* x, const float* weight, const float* bias, float* y) {
  const int64_t i = 4 * ((int64_t)blockIdx.x * BLOCK + threadIdx.x), channel = i % N;
  if (i >= ROWS * N) return;
  ws::Pack<float, 4> v = ws::load_pack<4>(x + i);
  const ws::Pack<float, 4> w = ws::load_pack<4>(weight + channel), b = ws::load_pack<4>(bias + channel);
  const float mean = group_sum(v.at[0] + v.at[1] + v.at[2] + v.at[3]) / SIZE;
  float squares = 0.0f;
#pragma unroll
  for (int j = 0; j < 4; j++) squares += (v.at[j] - mean) * (v.at[j] - mean);
  const float scale = rsqrtf(group_sum(squares) / SIZE + EPSILON);
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const float normal = (v.at[j] - mean) * scale * w.at[j] + b.at[j];
    const float leaky = normal > 0.0f ? normal : normal * 0.01f;
    v.at[j] = leaky + leaky;
  }
  ws::store_pack<4>(y + i, v);
}

static void unit(const in0_t* x, const in1_t* weight, const in2_t* bias, out0_t* y, void*, void* stream) {
  const unsigned blocks = ws::ceil_div(ROWS * N / 4, BLOCK);
  epilogue<<<blocks, BLOCK, 0, (cudaStream_t)stream>>>(x, weight, bias, y);
}
