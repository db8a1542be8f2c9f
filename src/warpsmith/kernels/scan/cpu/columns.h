//! Scan along another dimension than the last: a task is a block of columns, lanes are columns, the carries lie on the stack in float64.
constexpr int64_t most = (THREADS + (OUTER > 0 ? OUTER : 1) - 1) / (OUTER > 0 ? OUTER : 1);
constexpr int64_t share = ((WIDTH + most - 1) / most + 15) / 16 * 16;
constexpr int64_t block = share < 16 ? 16 : share < BLOCK ? share : BLOCK;
constexpr int64_t blocks = (WIDTH + block - 1) / block, across = blocks > 0 ? blocks : 1;
constexpr int64_t work = N * (WIDTH < block ? WIDTH : block);
constexpr int64_t grain = work >= GRAIN ? 1 : GRAIN / (work > 0 ? work : 1);
ws::parallel_ranges(THREADS, OUTER * blocks, grain, [&](int64_t begin, int64_t end, int) {
  alignas(64) float run[block] = {};
  alignas(64) double carry[block];
  for (int64_t task = begin; task < end; ++task) {
    int64_t at[RANK];
    place(task / across, at);
    at[LAST] = task % across * block;
    const int64_t width = WIDTH - at[LAST] < block ? WIDTH - at[LAST] : block;
    for (int64_t j = 0; j < block; ++j) carry[j] = IDENTITY;
    for (int64_t i = 0; i < N; ++i) {
      at[AXIS] = (REVERSE ? N - 1 - i : i) - EXCLUSIVE;
      if (!EXCLUSIVE || i > 0) {
        prologue0(run, at, width);
        for (int64_t j = 0; j < width; j += 8) {
          *(d8_mem*)(carry + j) = combine(*(const d8_mem*)(carry + j), load8(run + j));
        }
      }
      at[AXIS] += EXCLUSIVE;
      for (int64_t j = 0; j < width; j += 8) store8(run + j, *(const d8_mem*)(carry + j));
      epilogue(run, at, width);
    }
  }
  if (NT) ws::fence();
});
