// warpsmith-unit: 1
// A thread a column: neighbours read neighbours, UNROLL rows are in flight at once, each with an accumulator of its own.
// family: reduction   technique: a thread a column, independent accumulators
// tunable: BLOCK = 128 {64, 128, 256}
// tunable: UNROLL = 16 {4, 8, 16}
#include "task.h"
#include "warpsmith_cuda.h"

static constexpr int64_t BATCH = in0_shape[0], ROWS = in0_shape[1], COLUMNS = in0_shape[2];
static constexpr int64_t TILES = ws::ceil_div(COLUMNS, BLOCK);

__global__ void __launch_bounds__(BLOCK) reduce(const float* x, float* y) {
  const int64_t batch = blockIdx.x / TILES, column = blockIdx.x % TILES * BLOCK + threadIdx.x;
  if (column >= COLUMNS) return;
  x += batch * ROWS * COLUMNS + column;
  float totals[UNROLL];
#pragma unroll
  for (int u = 0; u < UNROLL; u++) totals[u] = ws::Sum::none<float>();
  int64_t r = 0;
  for (; r + UNROLL <= ROWS; r += UNROLL) {
    float v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) v[u] = __ldcs(x + (r + u) * COLUMNS);
#pragma unroll
    for (int u = 0; u < UNROLL; u++) totals[u] = ws::Sum::of(totals[u], v[u]);
  }
  for (; r < ROWS; r++) totals[0] = ws::Sum::of(totals[0], x[r * COLUMNS]);
#pragma unroll
  for (int u = 1; u < UNROLL; u++) totals[0] = ws::Sum::of(totals[0], totals[u]);
  y[batch * COLUMNS + column] = totals[0];
}

static void unit(const in0_t* x, out0_t* y, void*, void* stream) {
  reduce<<<(unsigned)(BATCH * TILES), BLOCK, 0, (cudaStream_t)stream>>>(x, y);
}
