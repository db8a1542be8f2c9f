// warpsmith-unit: 1
// family: norm   technique: a warp a row, two passes
// tunable: WARPS = 4 {2, 4, 8}
#include "task.h"
#include "warpsmith_cuda.h"

// in0: rows to normalise, in1: weight, in2: bias; epsilon 1e-5.
static constexpr int64_t ROWS = in0_shape[0], COLUMNS = in0_shape[1];

__global__ void __launch_bounds__(WARPS * 32) layernorm(const in0_t* x, const in1_t* weight, const in2_t* bias,
                                                        out0_t* y) {
  const int lane = threadIdx.x % 32;
  const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
  if (row >= ROWS) return;
  x += row * COLUMNS;
  y += row * COLUMNS;
  float sum = 0.0f, squares = 0.0f;
  for (int64_t i = lane; i < COLUMNS; i += 32) sum += ws::load_as(x[i]);
  const float mean = ws::warp_sum(sum) / COLUMNS;
  for (int64_t i = lane; i < COLUMNS; i += 32) {
    const float d = ws::load_as(x[i]) - mean;
    squares += d * d;
  }
  const float scale = rsqrtf(ws::warp_sum(squares) / COLUMNS + 1e-5f);
  for (int64_t i = lane; i < COLUMNS; i += 32)
    y[i] = ws::store_as<out0_t>((ws::load_as(x[i]) - mean) * scale * ws::load_as(weight[i]) + ws::load_as(bias[i]));
}

static void unit(const in0_t* in0, const in1_t* in1, const in2_t* in2, out0_t* out0, void*, void* stream) {
  layernorm<<<(unsigned)ws::ceil_div(ROWS, WARPS), WARPS * 32, 0, (cudaStream_t)stream>>>(in0, in1, in2, out0);
}
