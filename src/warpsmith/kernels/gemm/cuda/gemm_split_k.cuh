//! Split-K of a GEMM: a tile goes from shared memory to the epilogue or, as one of PARTS partial sums, to the
//! workspace; `combine` adds the parts in double and in a fixed order.

// A tile in shared memory, rows PITCH floats apart, to the outputs or to `partial`, the sums of one part.
template <int ROWS, int COLUMNS, int PITCH, int SIZE>
__device__ __forceinline__ void store_tile(
    const Operands& o, const float* tile, int64_t b, int64_t m, int64_t n, float* partial) {
  constexpr int V = OUT_VEC, ACROSS = COLUMNS / V;
  static_assert(COLUMNS % V == 0 && PITCH % V == 0, "whole packs");
#pragma unroll 4
  for (int i = threadIdx.x; i < ROWS * ACROSS; i += SIZE) {
    const int row = i / ACROSS, column = i % ACROSS * V;
    if (m + row >= M || n + column >= N) continue;
    const ws::Pack<float, V> sums = ws::load_pack<V>(tile + row * PITCH + column);
    if constexpr (PARTS == 1) finish<V>(o, b, m + row, n + column, sums);
    else ws::store_pack<V>(partial + (b * M + m + row) * N + n + column, sums);
  }
}
// The parts of each sum, in their order.
__global__ void __launch_bounds__(256) combine(Operands o, const float* partial) {
  constexpr int V = OUT_VEC;
  constexpr int64_t ACROSS = N >= V ? N / V : 1, ALL = BATCH * M * N, ROWS = M > 0 ? M : 1;
  const int64_t pack = (int64_t)blockIdx.x * 256 + threadIdx.x;
  if (pack >= ALL / V) return;
  double sums[V] = {};
#pragma unroll 8
  for (int part = 0; part < PARTS; part++) {
    const ws::Pack<float, V> one = ws::load_pack<V>(partial + part * ALL + pack * V);
#pragma unroll
    for (int v = 0; v < V; v++) sums[v] += one.at[v];
  }
  ws::Pack<float, V> total;
#pragma unroll
  for (int v = 0; v < V; v++) total.at[v] = (float)sums[v];
  const int64_t row = pack / ACROSS;
  finish<V>(o, row / ROWS, row % ROWS, pack % ACROSS * V, total);
}
