//! Loop over rows and a block of column vectors, SWEEP rows at once so that accumulators are loaded once for all of them.
// f(r, b) for rows [begin, end) and the vectors b of a block: SWEEP rows at once,
// so that an accumulator is loaded once for all of them.
template <bool FULL, class F> WS_FN void sweep(int64_t begin, int64_t end, int vectors, const F& f) {
  int64_t r = begin;
  for (; r + SWEEP <= end; r += SWEEP)
    for (int b = 0; b < (FULL ? BLOCK : vectors); ++b) {
#pragma GCC unroll 16
      for (int k = 0; k < SWEEP; ++k) f(r + k, b);
    }
  for (; r < end; ++r)
    for (int b = 0; b < (FULL ? BLOCK : vectors); ++b) f(r, b);
}
