//! Weights of a small-M GEMM as fragments. Values: the type's conversion, how V neighbours of a row are read as floats, at most how many at once.
constexpr int WEIGHT_V = ws::widest($width, VEC);  // neighbours of a row that are read together
template <int V>
__device__ __forceinline__ ws::Pack<left_t, V> read_weight(const Operands& o, int64_t n, int64_t k) {
  $read
}
__device__ __forceinline__ void load_weight(const Operands& o, int64_t n, int64_t k, int64_t end, uint32_t (&bits)[VEC / 2]) {
  constexpr int V = WEIGHT_V < 2 ? 1 : WEIGHT_V;
  left_t values[VEC];
#pragma unroll
  for (int i = 0; i < VEC; i += V) {
    ws::Pack<left_t, V> some{};
    if (n < N && k + i < end) some = read_weight<V>(o, n, k + i);
#pragma unroll
    for (int v = 0; v < V; v++) values[i + v] = some.at[v];
  }
#pragma unroll
  for (int i = 0; i < VEC / 2; i++) bits[i] = pack_pair(values[2 * i], values[2 * i + 1]);
}
