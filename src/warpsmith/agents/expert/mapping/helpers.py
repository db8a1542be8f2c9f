"""Functions that emitted data movement calls, as C++ text. They come after `warpsmith_simd.h`."""

from __future__ import annotations

HELPERS = {
    "ceil_div": """\
WS_FN int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0); }
""",
    "within": """\
WS_FN int64_t within(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }
""",
    "nonzero": """\
constexpr int64_t nonzero(int64_t n) { return n ? n : 1; }  // a divisor; loops over nothing do not get there
""",
    "entry": """\
// An entry of a table of indices; WRAP is added to a negative one.
template <int64_t WRAP, class T> WS_FN int64_t entry(T index) { return index < 0 ? index + WRAP : index; }
""",
    "fetch": """\
// As a plain load of n lanes, for any distance between them.
template <int64_t STRIDE, class T> WS_FN ws::vf fetch(const T* p, int64_t j, int n) {
  if constexpr (STRIDE == 0) return ws::splat(ws::load_one(p));
  else if constexpr (STRIDE == 1) return n == VEC ? ws::load(p + j) : ws::load_n(p + j, n);
#ifdef WS_GCC
  else if constexpr (STRIDE == -1) {
    if (n == VEC) return __builtin_shuffle(ws::load(p - j - (VEC - 1)), VEC - 1 - ws::iota());
  } else if constexpr (STRIDE == 2) {  // the second load ends with the last lane
    const ws::vi even = ws::iota() * 2;
    if (n == VEC) {
      const ws::vf low = ws::load(p + 2 * j), high = ws::load(p + 2 * j + VEC - 1);
      return __builtin_shuffle(low, high, ws::select(even < VEC, even, even + 1));
    }
  }
#endif
  ws::vf v{};
  for (int i = 0; i < n; ++i) v[i] = ws::load_one(p + (j + i) * STRIDE);
  return v;
}
""",
    "transpose": """\
// to[c][r] = from[r][c] for rows r < rows and columns c < columns: VEC by VEC at a time, in registers.
#ifdef WS_GCC
template <int S> WS_FN void swap_blocks(ws::vf* r) {  // exchanges the blocks of size S off the diagonal
  const ws::vi lane = ws::iota(), low = ws::select((lane & S) == 0, lane, lane + (VEC - S));
#pragma GCC unroll 16
  for (int i = 0; i < VEC; ++i)
    if (!(i & S)) {
      const ws::vf a = r[i], b = r[i + S];
      r[i] = __builtin_shuffle(a, b, low);
      r[i + S] = __builtin_shuffle(a, b, low + S);
    }
}
#endif
template <class T> WS_FN void transpose_block(float* to, int64_t to_row, const T* from, int64_t from_row, int rows, int columns) {
#ifdef WS_GCC
  ws::vf r[VEC];
  if (rows >= VEC && columns >= VEC) {
#pragma GCC unroll 16
    for (int i = 0; i < VEC; ++i) r[i] = ws::load(from + i * from_row);
  } else {
    for (int i = 0; i < VEC; ++i) r[i] = i < rows ? ws::load_n(from + i * from_row, columns < VEC ? columns : VEC) : ws::vf{};
  }
  swap_blocks<1>(r), swap_blocks<2>(r);
  if constexpr (VEC >= 8) swap_blocks<4>(r);
  if constexpr (VEC >= 16) swap_blocks<8>(r);
#pragma GCC unroll 16
  for (int i = 0; i < VEC; ++i) ws::store(to + i * to_row, r[i]);
#else
  for (int i = 0; i < rows && i < VEC; ++i)
    for (int k = 0; k < columns && k < VEC; ++k) to[k * to_row + i] = ws::load_one(from + i * from_row + k);
#endif
}
template <class T> WS_FN void transpose(float* to, int64_t to_row, const T* from, int64_t from_row, int64_t rows, int64_t columns) {
  for (int64_t c = 0; c < columns; c += VEC)
    for (int64_t r = 0; r < rows; r += VEC)
      transpose_block(to + c * to_row + r, to_row, from + r * from_row + c, from_row, (int)(rows - r), (int)(columns - c));
}
""",
    "interleave": """\
// to[i * N + k] = from[k * stride + i]: N short streams become one.
template <int64_t N> WS_FN void interleave(float* __restrict to, const float* __restrict from, int64_t stride, int64_t n) {
#ifdef WS_GCC
  if constexpr (N == 2) {
    const ws::vi half = ws::iota() / 2, odd = (ws::iota() & 1) * VEC;
    for (int64_t i = 0; i < n; i += VEC) {  // both buffers are padded to whole vectors
      const ws::vf a = ws::load(from + i), b = ws::load(from + stride + i);
      ws::store(to + 2 * i, __builtin_shuffle(a, b, half + odd));
      ws::store(to + 2 * i + VEC, __builtin_shuffle(a, b, half + odd + VEC / 2));
    }
    return;
  }
#endif
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < N; ++k) to[i * N + k] = from[k * stride + i];
}
""",
}


def helpers(body: str) -> str:
    """Those that the text calls."""
    return "\n".join(text for name, text in HELPERS.items() if f"{name}(" in body or f"{name}<" in body)
