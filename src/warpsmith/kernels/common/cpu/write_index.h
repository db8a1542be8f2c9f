//! Stores n lanes of int32 or int64 indices as int64: contiguous or strided.
template <int64_t STRIDE> WS_FN void write_index(int64_t* p, int64_t j, ws::vi v, int n) {
  if (STRIDE == 1 && n == VEC) ws::store(p + j, v);
  else for (int i = 0; i < n; ++i) p[(j + i) * STRIDE] = v[i];
}
template <int64_t STRIDE> WS_FN void write_index(int64_t* p, int64_t j, ws::vl v, int n) {
  if (STRIDE == 1 && n == VEC) *(ws::vl_mem*)(p + j) = v;
  else for (int i = 0; i < n; ++i) p[(j + i) * STRIDE] = v[i];
}
