//! Direct convolution on CUDA cores: one register tile a thread, stored through the epilogue as vectors; any shapes.
__global__ void __launch_bounds__(BLOCK) direct(Operands o) {
  float* const staged = reinterpret_cast<float*>(ws::dynamic_shared());
  // Staged weights are those of one map: a group's CHANNELS outputs. Blocks side by side read the same part of the input.
  const index_t all = (index_t)(STAGED ? blockIdx.x / (unsigned)MAPS : blockIdx.x) * BLOCK + threadIdx.x;
  const bool inside = all < TASKS;
  const index_t task = inside ? all : (index_t)(TASKS - 1);
  const int across = (int)(task % (index_t)ACROSS), strip = (int)(task / (index_t)ACROSS % (index_t)STRIPS);
  const int z = (int)(task / (index_t)(ACROSS * STRIPS) % (index_t)OD);
  const index_t lead = task / (index_t)(ACROSS * STRIPS * OD);
  const int map = STAGED ? (int)(blockIdx.x % (unsigned)MAPS) : (int)(lead % (index_t)MAPS);
  const int group = map / (int)BLOCKS, made = map % (int)BLOCKS * CHANNELS;
  const int x = across * STEP, y = strip * DOWN;
  int64_t at[RANK];
  at[0] = STAGED ? lead : lead / (index_t)MAPS;
  Part acc;
  make_part(o, staged, at, group, made, z, y, x, true, acc);
  if (!inside) return;
  if constexpr (SPACE > 2) at[RANK - 3] = z;
#pragma unroll
  for (int q = 0; q < CHANNELS; q++) {
    if (!ALL_THERE && made + q >= MADE) continue;
    at[1] = (int64_t)group * MADE + made + q;
#pragma unroll
    for (int s = 0; s < ROWS; s++) {
      if (OH % ROWS != 0 && strip * ROWS + s >= OH) continue;
      if constexpr (SPACE > 1) at[RANK - 2] = (int64_t)strip * ROWS + s;
#pragma unroll
      for (int c = 0; c < COLS; c += STORE) {
        if (OW % COLS != 0 && across * COLS + c >= OW) continue;
        at[RANK - 1] = (int64_t)across * COLS + c;
        ws::Pack<float, STORE> some;
#pragma unroll
        for (int i = 0; i < STORE; i++) some.at[i] = acc[q][s][c + i];
        epilogue<STORE>(o, some, at);
      }
    }
  }
}
