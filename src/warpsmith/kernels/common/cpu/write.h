//! Stores n lanes: contiguous, past the caches on request (non-temporal), or strided.
template <int64_t STRIDE, bool STREAM = false, class T> WS_FN void write(T* p, int64_t j, ws::vf v, int n) {
  if constexpr (STRIDE != 1)
    for (int i = 0; i < n; ++i) ws::store_one(p + (j + i) * STRIDE, v[i]);
  else if (n != VEC) ws::store_n(p + j, v, n);
  else if constexpr (STREAM) ws::stream(p + j, v);
  else ws::store(p + j, v);
}
