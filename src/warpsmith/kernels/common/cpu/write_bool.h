//! Stores n lanes of a mask as bytes: contiguous or strided.
template <int64_t STRIDE> WS_FN void write_bool(bool* p, int64_t j, ws::vm m, int n) {
  if (STRIDE == 1 && n == VEC) ws::store_bool(p + j, m);
  else for (int i = 0; i < n; ++i) p[(j + i) * STRIDE] = m[i] != 0;
}
