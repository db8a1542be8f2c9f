"""C++ functions that attention kernels call: packing keys, values and queries, products from registers, and the
running softmax of a block of scores (Milakov and Gimelshein 2018; Dao et al. 2022).

They refer to VEC, ROWS and PANEL (keys that lie side by side, TILE vectors of them).
"""

from __future__ import annotations

HELPERS = """\
// VEC x VEC floats in registers, transposed in log2(VEC) steps: bit K of row and lane change places.
template <int K> WS_FN void transpose(ws::vf (&x)[VEC]) {
#if defined(WS_GCC)
  const ws::vi lane = ws::iota();
  const ws::vm high = (lane & K) != 0;
  const ws::vi upper = ws::select(high, (lane ^ K) + VEC, lane), lower = ws::select(high, lane + VEC, lane | K);
#pragma GCC unroll 16
  for (int i = 0; i < VEC; ++i) {
    if (i & K) continue;
    const ws::vf a = x[i], b = x[i | K];
    x[i] = __builtin_shuffle(a, b, upper);
    x[i | K] = __builtin_shuffle(a, b, lower);
  }
  if constexpr (2 * K < VEC) transpose<2 * K>(x);
#else
  for (int i = 0; i < VEC; ++i)
    for (int j = 0; j < i; ++j) {
      const float a = x[i][j];
      x[i][j] = x[j][i];
      x[j][i] = a;
    }
#endif
}

// n lanes at p, STEP elements apart; the others 0.
template <int64_t STEP, class T> WS_FN ws::vf lanes_of(const T* p, int n) {
  if constexpr (STEP == 1) return n == VEC ? ws::load(p) : ws::load_n(p, n);
  else {
    ws::vf v{};
    for (int i = 0; i < n; ++i) v[i] = ws::load_one(p + i * STEP);
    return v;
  }
}

// Keys as panels: to[panel][feature][key], 0 beyond the last key.
template <int64_t KEY, int64_t FEATURE, class T>
static __attribute__((noinline)) void pack_keys(const T* from, float* to, int64_t count, int64_t width) {
  for (int64_t at = 0; at < count; at += VEC) {
    const int n = (int)(count - at < VEC ? count - at : VEC);
    const T* const keys = from + at * KEY;
    float* const panel = to + at / PANEL * PANEL * width + at % PANEL;
    if constexpr (FEATURE == 1 && KEY != 1) {
      for (int64_t e = 0; e < width; e += VEC) {
        const int m = (int)(width - e < VEC ? width - e : VEC);
        ws::vf x[VEC];
#pragma GCC unroll 16
        for (int i = 0; i < VEC; ++i) x[i] = i < n ? lanes_of<1>(keys + i * KEY + e, m) : ws::vf{};
        transpose<1>(x);
#pragma GCC unroll 16
        for (int i = 0; i < VEC; ++i)
          if (i < m) ws::store(panel + (e + i) * PANEL, x[i]);
      }
    } else {
      for (int64_t e = 0; e < width; ++e) ws::store(panel + e * PANEL, lanes_of<KEY>(keys + e * FEATURE, n));
    }
  }
  for (int64_t at = (count + VEC - 1) / VEC * VEC; at < (count + PANEL - 1) / PANEL * PANEL; at += VEC)
    for (int64_t e = 0; e < width; ++e) ws::store(to + at / PANEL * PANEL * width + e * PANEL + at % PANEL, ws::vf{});
}

// Rows, dense and padded with 0 to whole vectors.
template <int64_t ROW, int64_t FEATURE, class T>
static __attribute__((noinline)) void pack_rows(const T* from, float* to, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t e = 0; e < width; e += VEC, to += VEC) {
      const int n = (int)(width - e < VEC ? width - e : VEC);
      ws::store(to, lanes_of<FEATURE>(from + r * ROW + e * FEATURE, n));
    }
}

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

// `seen` scores of one row, times a scale, become weights exp(s - top); top and total take them in, and what was summed
// before is to be multiplied by the result. A row that has only seen -inf keeps weights of 0.
WS_FN float soften(float* s, int64_t seen, float scale, float& top, ws::vf& total) {
  ws::vf most = ws::splat(-ws::infinity);
  const int64_t whole = seen / VEC * VEC;
  const int rest = (int)(seen - whole);
  const ws::vm beyond = ws::iota() >= rest;
  for (int64_t j = 0; j < whole; j += VEC) most = ws::max(ws::load(s + j) * scale, most);
  if (rest) most = ws::max(ws::select(beyond, ws::splat(-ws::infinity), ws::load(s + whole) * scale), most);
  const float next = ws::max(ws::hmax(most), top);
  const float base = next == -ws::infinity ? 0.0f : next;
  const float before = ws::exp_nonpos(top - base);
  ws::vf sum{};
  for (int64_t j = 0; j < whole; j += VEC) {
    const ws::vf weight = ws::exp_nonpos(ws::load(s + j) * scale - base);
    ws::store(s + j, weight);
    sum += weight;
  }
  if (rest) {
    const ws::vf weight = ws::select(beyond, ws::vf{}, ws::exp_nonpos(ws::load(s + whole) * scale - base));
    ws::store(s + whole, weight);
    sum += weight;
  }
  top = next;
  total = total * before + sum;
  return before;
}
"""
