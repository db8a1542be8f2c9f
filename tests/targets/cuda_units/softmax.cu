// warpsmith-unit: 1
// family: softmax   technique: a block a row, online
// tunable: BLOCK = 256 {64, 128, 256, 512}
#include "task.h"
#include "warpsmith_cuda.h"

static constexpr int64_t ROWS = in0_shape[0], COLUMNS = in0_shape[1];

__global__ void __launch_bounds__(BLOCK) softmax(const in0_t* x, out0_t* y) {
  const in0_t* row = x + blockIdx.x * COLUMNS;
  ws::OnlineSoftmax state;
  for (int64_t i = threadIdx.x; i < COLUMNS; i += BLOCK) state.add(ws::load_as(row[i]));
  state.block_merge();
  for (int64_t i = threadIdx.x; i < COLUMNS; i += BLOCK)
    y[blockIdx.x * COLUMNS + i] = ws::store_as<out0_t>(expf(ws::load_as(row[i]) - state.max) / state.sum);
}

static void unit(const in0_t* in0, out0_t* out0, void*, void* stream) {
  softmax<<<(unsigned)ROWS, BLOCK, 0, (cudaStream_t)stream>>>(in0, out0);
}
