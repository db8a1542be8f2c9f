//! Loads n lanes of integers of any width, widened to int64: contiguous, one value for all lanes, or strided.
// Integers of any width, as int64.
template <int64_t STRIDE, class T> WS_FN ws::vl read_int(const T* p, int64_t j, int n) {
  if constexpr (STRIDE == 0) return ws::splat_long((int64_t)*p);
  else {
    if constexpr (STRIDE == 1 && sizeof(T) == 8)
      if (n == VEC) return *(const ws::vl_mem*)(p + j);
    ws::vl v{};
    for (int i = 0; i < n; ++i) v[i] = p[(j + i) * STRIDE];
    return v;
  }
}
