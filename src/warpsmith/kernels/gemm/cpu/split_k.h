//! Work distribution and split-K of the CPU GEMMs: sums longer than MAX_DEPTH, or SPLIT ways, are cut along K into parts;
//! partial sums lie in float32 scratch and are added up in float64 in a fixed order, so results do not depend on timing.
constexpr int64_t MAX_DEPTH = 4096;  // products in one sum of floats; bounds the scratch memory, too
constexpr int64_t PARTS = most(SPLIT, pieces(K, MAX_DEPTH));
constexpr int64_t DEPTH = most(1, padded(pieces(K, PARTS), VEC));  // of a part
constexpr int64_t PITCH = padded(DEPTH, 16) + 16;  // between packed rows: no power of two, for they would share cache sets
constexpr int64_t LINE = padded(N, VEC);           // a row of partial sums
constexpr int R = (int)even(M, ROWS);
constexpr int64_t ROW_TILES = most(1, pieces(M, R));
constexpr int R_LAST = M > 0 ? (int)(M - (ROW_TILES - 1) * R) : R;

// f(begin, end, scratch of the thread) over tiles, each some `work` multiplications.
template <class F> static inline void spread(int64_t tiles, int64_t work, int64_t scratch_floats, float* scratch, const F& f) {
  ws::parallel_ranges(THREADS, tiles, pieces(32768, most(1, work)), [&](int64_t begin, int64_t end, int part) {
    f(begin, end, scratch + part * scratch_floats);
    if (NT) ws::fence();
  });
}
// Results of a row: to their end, or to the partial sums of part p.
template <class Finish>
WS_FN void store_sums(int64_t p, int64_t b, int64_t m, int64_t n, float* sums, int64_t count, float* partial, const Finish& finish) {
  if constexpr (PARTS == 1) finish(b, m, n, sums, count);
  else
    for (int64_t j = 0; j < count; j += VEC)
      ws::store(partial + ((p * BATCH + b) * M + m) * LINE + n + j, ws::load(sums + j));
}
template <class Finish> static inline void combine(const float* partial, const Finish& finish) {
  constexpr int64_t RUN = 256, RUNS = most(1, pieces(N, RUN));
  spread(N > 0 ? BATCH * M * RUNS : 0, PARTS * least(N, RUN), 0, nullptr, [&](int64_t begin, int64_t end, float*) {
    alignas(64) float sums[RUN];
    for (int64_t item = begin; item < end; ++item) {
      const int64_t row = item / RUNS, n = item % RUNS * RUN, count = least(RUN, N - n);
      for (int64_t j = 0; j < count; j += VEC) {
        ws::vd total{};
        for (int64_t p = 0; p < PARTS; ++p) total += ws::widen(ws::load(partial + (p * BATCH * M + row) * LINE + n + j));
        ws::store(sums + j, ws::narrow(total));
      }
      finish(row / most(1, M), row % most(1, M), n, sums, count);
    }
  });
}
