//! Scan along the last dimension, a thread for whole rows: each row in chunks that stay in the L1 cache, the carry in float64.
constexpr int64_t grain = N >= GRAIN ? 1 : GRAIN / (N > 0 ? N : 1);
ws::parallel_ranges(THREADS, OUTER, grain, [&](int64_t begin, int64_t end, int) {
  alignas(64) float run[CHUNK];
  for (int64_t row = begin; row < end; ++row) {
    int64_t at[RANK];
    place(row, at);
    d8 carry = splat8(IDENTITY);
    for (int64_t c = 0; c < N; c += CHUNK) {
      const int64_t size = N - c < CHUNK ? N - c : CHUNK;
      at[LAST] = REVERSE ? N - c - size : c;
      const int64_t have = size < COUNT - at[LAST] ? size : COUNT - at[LAST];
      prologue0(run, at, have);
      carry = scan_run(run, have, size, carry);
      epilogue(run, at, size);
    }
  }
  if (NT) ws::fence();
});
