//! Loads n lanes of a mask: contiguous, one value for all lanes, or strided.
template <int64_t STRIDE> WS_FN ws::vm read_bool(const bool* p, int64_t j, int n) {
  if constexpr (STRIDE == 0) return ws::splat_int(-(int)*p);
  else if constexpr (STRIDE == 1) return n == VEC ? ws::load_bool(p + j) : ws::load_bool_n(p + j, n);
  else {
    ws::vm m{};
    for (int i = 0; i < n; ++i) m[i] = -(int)p[(j + i) * STRIDE];
    return m;
  }
}
