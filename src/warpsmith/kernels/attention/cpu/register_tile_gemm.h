//! Register-tiled GEMM on packed float32 operands: R rows by C vectors stay in registers over the whole depth; two interleaved
//! partial sums where rounding errors would lean one way.
// c = a * b, or c += a * b: R rows and C vectors in registers over the whole depth. PARTS sums of every PARTS-th term
// are added up last, which keeps roundings that lean one way from growing with the depth.
template <int R, int C, int PARTS> static __attribute__((noinline)) void tile(
    const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc, int64_t depth, bool add) {
  ws::vf x[PARTS][R][C] = {};
  const auto step = [&](int64_t k, ws::vf (&sum)[R][C]) __attribute__((always_inline)) {
    ws::vf y[C];
#pragma GCC unroll 16
    for (int v = 0; v < C; ++v) y[v] = ws::held(ws::load(b + k * ldb + v * VEC));
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const ws::vf left = ws::splat(a[r * lda + k]);
#pragma GCC unroll 16
      for (int v = 0; v < C; ++v) sum[r][v] += left * y[v];
    }
  };
  int64_t k = 0;
  for (; k + PARTS <= depth; k += PARTS) {
#pragma GCC unroll 4
    for (int p = 0; p < PARTS; ++p) step(k + p, x[p]);
  }
  static_assert(PARTS <= 2, "one term at most is left");
  if (k < depth) step(k, x[0]);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < C; ++v) {
      ws::vf sum = x[0][r][v];
      for (int p = 1; p < PARTS; ++p) sum += x[p][r][v];
      float* const to = c + r * ldc + v * VEC;
      ws::store(to, add ? ws::load(to) + sum : sum);
    }
  }
}
template <int C, int PARTS> WS_FN void strip(
    const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc, int64_t rows, int64_t depth, bool add) {
  constexpr int R = ROWS / PARTS;
  int64_t r = 0;
  for (; r + R <= rows; r += R) tile<R, C, PARTS>(a + r * lda, lda, b, ldb, c + r * ldc, ldc, depth, add);
  for (; r + 2 <= rows; r += 2) tile<2, C, PARTS>(a + r * lda, lda, b, ldb, c + r * ldc, ldc, depth, add);
  if (r < rows) tile<1, C, PARTS>(a + r * lda, lda, b, ldb, c + r * ldc, ldc, depth, add);
}
template <int64_t VECTORS> WS_FN void product(
    const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc, int64_t rows, int64_t depth, bool add) {
  constexpr int64_t whole = VECTORS / TILE * TILE;
  for (int64_t v = 0; v < whole; v += TILE) strip<TILE, 1>(a, lda, b + v * VEC, ldb, c + v * VEC, ldc, rows, depth, add);
  if constexpr (VECTORS > whole)
    strip<VECTORS - whole, 1>(a, lda, b + whole * VEC, ldb, c + whole * VEC, ldc, rows, depth, add);
}
