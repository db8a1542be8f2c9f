"""The loops of a matrix product as C++, general in all shapes and strides: text in terms of `product.declarations`.

What both techniques share. They define `multiply(left, right, scratch, fill, finish)`: `fill(to, at, k, n)` makes n
floats of a row of the left factor from element k of the sum on; `finish(b, m, n, sums, count)` takes `count` results of
row m of batch b from column n on, and may overwrite them. Sums longer than MAX_DEPTH, or SPLIT ways, are cut into
parts that `combine` adds up in double and in a fixed order.
"""

START = """\
// Tunables that the main shapes leave no choice for.
#ifndef SPLIT
#define SPLIT 1
#endif
#ifndef ROWS
#define ROWS 1
#endif
#ifndef COLUMNS
#define COLUMNS 1
#endif
#ifndef PACK
#define PACK 1
#endif
#ifndef RESIDENT
#define RESIDENT 512
#endif
constexpr int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
constexpr int64_t pieces(int64_t n, int64_t size) { return (n + size - 1) / size; }
constexpr int64_t padded(int64_t n, int64_t unit) { return pieces(n, unit) * unit; }
// The size of equal pieces of at most `size`.
constexpr int64_t even(int64_t n, int64_t size) { return n > 0 ? pieces(n, pieces(n, size)) : 1; }
"""

COMMON = """\
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
WS_FN void deliver(int64_t p, int64_t b, int64_t m, int64_t n, float* sums, int64_t count, float* partial, const Finish& finish) {
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
"""

# What of the product a triangle keeps; without one nothing is outside, and tiles come in their order.
WHOLE = """\
WS_FN bool outside(int64_t, int64_t, int64_t, int64_t) { return false; }
WS_FN int64_t turn(int64_t t) { return t; }
"""
LOWER = """\
// Rows first … last with columns from … to lie wholly above the diagonal.
WS_FN bool outside(int64_t, int64_t last, int64_t from, int64_t) { return from > last + DIAGONAL; }
"""
UPPER = """\
// Rows first … last with columns from … to lie wholly below the diagonal.
WS_FN bool outside(int64_t first, int64_t, int64_t, int64_t to) { return to < first + DIAGONAL; }
"""
# Full and empty rows in turn, so that every thread gets as many of each.
TURN = "WS_FN int64_t turn(int64_t t) { return t & 1 ? ROW_TILES - 1 - t / 2 : t / 2; }\n"
