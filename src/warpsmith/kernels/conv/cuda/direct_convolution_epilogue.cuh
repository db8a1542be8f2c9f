//! Direct convolution on CUDA cores with a fused epilogue in registers: pointwise chain, pooling window, then a store,
//! a reduction over channels or a sum over places. A thread makes the planes of its windows one after the other. $map,
//! $tile: what the block makes; $pointwise: a statement on `row`; $start, $combine, $finish: the pooling; $epilogue:
//! the rest.
__global__ void __launch_bounds__(BLOCK) direct(Operands o, [[maybe_unused]] float* sums) {
  float* const staged = reinterpret_cast<float*>(ws::dynamic_shared());
  const int map = $map, group = TOGETHER > 1 ? 0 : map / (int)BLOCKS, from = (map - group * (int)BLOCKS) * CHANNELS;
  const int64_t tile = $tile;
  const int own = (int)(tile % TILES) * PLACED + (int)threadIdx.x / TOGETHER, task = own < EACH ? own : (int)EACH - 1;
  const int across = task % (int)ACROSS, strip = task / (int)ACROSS % (int)STRIPS, z = task / (int)(ACROSS * STRIPS);
  int64_t at[RANK];
  at[0] = tile / TILES;
  const auto there = [&](int high, int low) {
    return own < EACH && strip * PART_H + high < ENDS_H && across * PART_W + low < ENDS_W;
  };
  const auto index = [&](int64_t deep, int64_t high, int64_t low) {
    if constexpr (SPACE > 2) at[RANK - 3] = deep;
    if constexpr (SPACE > 1) at[RANK - 2] = high;
    at[RANK - 1] = low;
  };
  float pooled[CHANNELS][PART_H][PART_W];
#pragma unroll
  for (int q = 0; q < CHANNELS; q++)
#pragma unroll
    for (int high = 0; high < PART_H; high++)
#pragma unroll
      for (int low = 0; low < PART_W; low++) pooled[q][high][low] = $start;
#pragma unroll 1
  for (int d = 0; d < WINDOW_D; d++) {
    const int plane = z * WINDOW_D + d;
    Part acc;
    make_part(o, staged, at, group, from, plane, strip * DOWN, across * STEP, d == 0, acc);
#pragma unroll
    for (int q = 0; q < CHANNELS; q++) {
      if (!ALL_THERE && from + q >= MADE) continue;
      at[1] = (int64_t)group * MADE + from + q;
#pragma unroll
      for (int s = 0; s < ROWS; s++)
#pragma unroll
        for (int c = 0; c < COLS; c++) {
          if (!there(s / WINDOW_H, c / WINDOW_W)) continue;
          constexpr int v = 0;
          index(plane, (int64_t)strip * ROWS + s, (int64_t)across * COLS + c);
          float& made = pooled[q][s / WINDOW_H][c / WINDOW_W];
          ws::Pack<float, 1> row = {{acc[q][s][c]}};
          $pointwise
          made = $combine;
        }
    }
  }
#pragma unroll
  for (int q = 0; q < CHANNELS; q++)
#pragma unroll
    for (int high = 0; high < PART_H; high++)
#pragma unroll
      for (int low = 0; low < PART_W; low++) {
        const float made = pooled[q][high][low];
        pooled[q][high][low] = $finish;
      }
$epilogue
}
