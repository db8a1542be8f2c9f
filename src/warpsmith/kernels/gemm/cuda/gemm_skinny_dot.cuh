//! Skinny GEMM on CUDA cores, large factor along K: GROUP threads walk ROWS_PER_GROUP rows side by side as 16-byte vectors, the
//! small factor stays in the cache; reduced by warp, then in shared memory; memory-bound; fp32 FMA. $tiles:
//! gemm_skinny_tiles.cuh.

constexpr int SIZE = GROUP > 128 ? GROUP : 128, GROUPS_PER_BLOCK = SIZE / GROUP, TILE = GROUPS_PER_BLOCK * ROWS_PER_GROUP;
$tiles

__device__ __forceinline__ void multiply(
    const Operands& o, int64_t b, int64_t y, int64_t x, int64_t start, int64_t end, float* partial) {
  constexpr bool WHOLE = SMALL_VEC % V == 0;
  const int slot = threadIdx.x % GROUP, team = threadIdx.x / GROUP, lane = threadIdx.x % 32;
  y += team * ROWS_PER_GROUP;
  const big_t* big[ROWS_PER_GROUP];
  const small_t* small[F];
#pragma unroll
  for (int i = 0; i < ROWS_PER_GROUP; i++) big[i] = big_row(o, b, y + i < TALLEST ? y + i : TALLEST - 1);
#pragma unroll
  for (int f = 0; f < F; f++) small[f] = small_row(o, b, x + f < FEW ? x + f : FEW - 1);
  float sums[ROWS_PER_GROUP][F] = {};
#pragma unroll 2
  for (int64_t k = start + slot * V; k < end; k += GROUP * V) {
    ws::Pack<big_t, V> values[ROWS_PER_GROUP];
    ws::Pack<small_t, V> factors[F];
#pragma unroll
    for (int i = 0; i < ROWS_PER_GROUP; i++) values[i] = ws::read<V, BIG_K, true>(big[i] + k * BIG_K);
#pragma unroll
    for (int f = 0; f < F; f++) factors[f] = ws::read<V, SMALL_K, WHOLE>(small[f] + k * SMALL_K);
#pragma unroll
    for (int i = 0; i < ROWS_PER_GROUP; i++)
#pragma unroll
      for (int f = 0; f < F; f++)
#pragma unroll
        for (int v = 0; v < V; v++)
          sums[i][f] = fmaf(ws::load_as(values[i].at[v]), ws::load_as(factors[f].at[v]), sums[i][f]);
  }
  // Warps first; then, where several share the rows, their sums in their order.
  constexpr int WARPS = GROUP / 32;
  __shared__ float room[SIZE / 32][ROWS_PER_GROUP * F];
#pragma unroll
  for (int i = 0; i < ROWS_PER_GROUP; i++)
#pragma unroll
    for (int f = 0; f < F; f++) {
      const float sum = ws::warp_sum(sums[i][f]);
      if (lane == 0) room[threadIdx.x / 32][i * F + f] = sum;
    }
  __syncthreads();
  for (int i = slot; i < ROWS_PER_GROUP * F; i += GROUP) {
    float sum = room[team * WARPS][i];
#pragma unroll
    for (int w = 1; w < WARPS; w++) sum += room[team * WARPS + w][i];
    store_sum(o, b, y + i / F, x + i % F, sum, partial);
  }
}
