//! Vectorised loop over a range, unrolled into UNROLL independent accumulators; the last vector is partial.
// f(j, n, u) over [begin, end): n lanes at j, accumulator u, so that UNROLL additions are in flight.
template <class F> WS_FN void vectors(int64_t begin, int64_t end, const F& f) {
  int64_t j = begin;
  for (; j + UNROLL * VEC <= end; j += UNROLL * VEC) {
#pragma GCC unroll 16
    for (int u = 0; u < UNROLL; ++u) f(j + u * VEC, VEC, u);
  }
  for (; j + VEC <= end; j += VEC) f(j, VEC, 0);
  if (j < end) f(j, (int)(end - j), 0);
}
