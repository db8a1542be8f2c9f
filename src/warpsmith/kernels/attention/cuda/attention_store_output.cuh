//! Epilogue of weights times values: stores the attention's result through the pointwise chain.

template <int V>
__device__ __forceinline__ void finish(const Operands& o, int64_t b, int64_t m, int64_t n, const ws::Pack<float, V>& sums) {
  int64_t at[RANK];
  place(b, m, at);
  at[RANK - 1] = n;
  epilogue<V>(o, sums, at);
}
