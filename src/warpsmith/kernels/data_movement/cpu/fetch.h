//! Loads n lanes at any stride as float32; strides of -1 and 2 by whole loads and a shuffle.
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
