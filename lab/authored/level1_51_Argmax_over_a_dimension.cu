// warpsmith-unit: 1
// A thread a column: neighbours read neighbours, UNROLL rows are in flight at once, then looked at in order: the
// first of equal values stays, and the first NaN wins, as torch has it.
// family: reduction   technique: a thread a column, rows in order
// tunable: BLOCK = 128 {64, 128, 256}
// tunable: UNROLL = 16 {4, 8, 16}
#include "task.h"
#include "warpsmith_cuda.h"

static constexpr int64_t BATCH = in0_shape[0], ROWS = in0_shape[1], COLUMNS = in0_shape[2];
static constexpr int64_t TILES = ws::ceil_div(COLUMNS, BLOCK);

__device__ __forceinline__ void look(float& best, int64_t& where, float v, int64_t r) {
  if (v > best || (v != v && best == best)) best = v, where = r;
}

__global__ void __launch_bounds__(BLOCK) argmax(const float* x, int64_t* y) {
  const int64_t batch = blockIdx.x / TILES, column = blockIdx.x % TILES * BLOCK + threadIdx.x;
  if (column >= COLUMNS) return;
  x += batch * ROWS * COLUMNS + column;
  float best = -INFINITY;
  int64_t where = 0, r = 0;
  for (; r + UNROLL <= ROWS; r += UNROLL) {
    float v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) v[u] = __ldcs(x + (r + u) * COLUMNS);
#pragma unroll
    for (int u = 0; u < UNROLL; u++) look(best, where, v[u], r + u);
  }
  for (; r < ROWS; r++) look(best, where, x[r * COLUMNS], r);
  y[batch * COLUMNS + column] = where;
}

static void unit(const in0_t* x, out0_t* y, void*, void* stream) {
  argmax<<<(unsigned)(BATCH * TILES), BLOCK, 0, (cudaStream_t)stream>>>(x, y);
}
