//! Scan along the last dimension of few, long rows, in two passes (reduce, then scan): each stretch of a row is cut into
//! one part a thread; the parts' totals give the carry into each, and the scan reads what is still in the caches.
for (int64_t row = 0; row < OUTER; ++row) {
  double before = IDENTITY;  // of all that precedes the stretch
  for (int64_t s = 0; s < N; s += THREADS * (int64_t)PART) {
    const int64_t length = N - s < THREADS * (int64_t)PART ? N - s : THREADS * (int64_t)PART;
    const int64_t parts = (length + PART - 1) / PART;
    double total[THREADS];
    // What each part adds up to.
    ws::parallel_ranges(THREADS, parts, 1, [&](int64_t first, int64_t end, int) {
      alignas(64) float run[CHUNK];
      int64_t at[RANK];
      place(row, at);
      for (int64_t p = first; p < end; ++p) {
        const int64_t low = p * PART, high = low + PART < length ? low + PART : length;
        d8 sum = splat8(IDENTITY);
        for (int64_t c = low; c < high; c += CHUNK) {
          const int64_t size = high - c < CHUNK ? high - c : CHUNK;
          at[LAST] = REVERSE ? N - s - c - size : s + c;
          const int64_t have = size < COUNT - at[LAST] ? size : COUNT - at[LAST];
          prologue0(run, at, have);
          sum = total_run(run, have, sum);
        }
        double all = sum[0];
        for (int i = 1; i < 8; ++i) all = combine(splat8(all), splat8(sum[i]))[0];
        total[p] = all;
      }
    });
    double carried[THREADS];
    for (int64_t p = 0; p < parts; ++p) {
      carried[p] = before;
      before = combine(splat8(before), splat8(total[p]))[0];
    }
    // The parts' scans, while the stretch is still in the caches.
    ws::parallel_ranges(THREADS, parts, 1, [&](int64_t first, int64_t end, int) {
      alignas(64) float run[CHUNK];
      int64_t at[RANK];
      place(row, at);
      for (int64_t p = first; p < end; ++p) {
        const int64_t low = p * PART, high = low + PART < length ? low + PART : length;
        d8 carry = splat8(carried[p]);
        for (int64_t c = low; c < high; c += CHUNK) {
          const int64_t size = high - c < CHUNK ? high - c : CHUNK;
          at[LAST] = REVERSE ? N - s - c - size : s + c;
          const int64_t have = size < COUNT - at[LAST] ? size : COUNT - at[LAST];
          prologue0(run, at, have);
          carry = scan_run(run, have, size, carry);
          epilogue(run, at, size);
        }
      }
      if (NT) ws::fence();
    });
  }
}
