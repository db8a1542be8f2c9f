//! Skinny GEMM on CUDA cores, large factor across K: a warp takes neighbouring columns as vectors, GROUP warps share
//! the sum and meet in shared memory; memory-bound; fp32 FMA. $tiles: gemm_skinny_tiles.cuh.

constexpr int SIZE = 32 * GROUP, TILE = 32 * V;
$tiles

__device__ __forceinline__ void multiply(
    const Operands& o, int64_t b, int64_t y, int64_t x, int64_t start, int64_t end, float* partial) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t mine = y + lane * V < TALLEST ? y + lane * V : 0;  // a column of its own, or another one once more
  const big_t* const big = big_row(o, b, mine);
  const small_t* small[F];
#pragma unroll
  for (int f = 0; f < F; f++) small[f] = small_row(o, b, x + f < FEW ? x + f : FEW - 1);
  float sums[F][V] = {};
#pragma unroll 8
  for (int64_t k = start + warp; k < end; k += GROUP) {
    const ws::Pack<big_t, V> values = ws::read<V, 1, true>(big + k * BIG_K);
#pragma unroll
    for (int f = 0; f < F; f++) {
      const float factor = ws::load_as(small[f][k * SMALL_K]);
#pragma unroll
      for (int v = 0; v < V; v++) sums[f][v] = fmaf(ws::load_as(values.at[v]), factor, sums[f][v]);
    }
  }
  __shared__ float room[GROUP][F][TILE];
#pragma unroll
  for (int f = 0; f < F; f++)
#pragma unroll
    for (int v = 0; v < V; v++) room[warp][f][v * 32 + lane] = sums[f][v];
  __syncthreads();
  for (int i = threadIdx.x; i < F * TILE; i += SIZE) {
    const int f = i / TILE, at = i % TILE;
    float sum = room[0][f][at];
#pragma unroll
    for (int w = 1; w < GROUP; w++) sum += room[w][f][at];
    store_sum(o, b, y + at % 32 * V + at / 32, x + f, sum, partial);
  }
}
