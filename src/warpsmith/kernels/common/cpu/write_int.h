//! Stores n lanes of int32 or int64 as integers of 8 to 32 bits, cut to their lowest bits: contiguous or strided.
template <int64_t STRIDE, class T, class V> WS_FN void write_int(T* p, int64_t j, V v, int n) {
  typedef T narrow __attribute__((vector_size(VEC * sizeof(T))));
  typedef narrow narrow_mem __attribute__((aligned(sizeof(T)), may_alias));
  if (STRIDE == 1 && n == VEC) *(narrow_mem*)(p + j) = __builtin_convertvector(v, narrow);
  else for (int i = 0; i < n; ++i) p[(j + i) * STRIDE] = (T)v[i];
}
