//! Loads n lanes of an operand as float32: contiguous, one value for all lanes, or strided.
// n lanes of an operand: VEC in the body of a loop, fewer at its end.
// STRIDE 1: neighbours, 0: one value, else gathered.
template <int64_t STRIDE, class T> WS_FN ws::vf read(const T* p, int64_t j, int n) {
  if constexpr (STRIDE == 0) return ws::splat(ws::load_one(p));
  else if constexpr (STRIDE == 1) return n == VEC ? ws::load(p + j) : ws::load_n(p + j, n);
  else {
    ws::vf v{};
    for (int i = 0; i < n; ++i) v[i] = ws::load_one(p + (j + i) * STRIDE);
    return v;
  }
}
