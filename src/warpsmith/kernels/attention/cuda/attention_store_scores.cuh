//! Epilogue of queries times keys: stores scores (L, S) of a round of heads as fp32 in the workspace.

template <int V>
__device__ __forceinline__ void finish(const Operands& o, int64_t b, int64_t m, int64_t n, const ws::Pack<float, V>& sums) {
  ws::store_pack<V>(o.scores + (b * M + m) * N + n, sums);
}
