//! Scan along the last dimension: a block a row, or a part of it, tile by tile; packs in registers, then shuffles, then
//! warp totals (Hillis and Steele); two tiles prefetched; carry in double; split rows reduce first (`totals`), so they
//! are read twice.
constexpr int V = N >= 64 * VEC ? VEC : ws::widest(N, VEC), WARPS = BLOCK / 32;
constexpr bool EVEN = N % V == 0;
constexpr int64_t OUTER = count(false), PACKS = ws::ceil_div(N, (int64_t)V), TILES = ws::ceil_div(PACKS, (int64_t)BLOCK);
constexpr int64_t PARTS = TILES < SPLIT ? (TILES > 0 ? TILES : 1) : SPLIT, SHARE = ws::ceil_div(TILES, PARTS);
using Values = ws::Pack<float, V>;

// Pack `pack` of a row in the order of the scan; the identity where there is nothing to read.
__device__ __forceinline__ Values take(const Operands& o, int64_t (&at)[RANK], int64_t pack) {
  Values values;
  at[LAST] = REVERSE ? N - (pack + 1) * V : pack * V;
  if ((EVEN || !REVERSE) && at[LAST] >= 0 && at[LAST] + V <= COUNT) return prologue0<V>(o, at);
#pragma unroll
  for (int v = 0; v < V; v++) {
    values.at[v] = at[LAST] >= 0 && at[LAST] < COUNT ? prologue0<1>(o, at).at[0] : IDENTITY;
    at[LAST]++;
  }
  return values;
}
// All of a pack, in the order of the scan.
__device__ __forceinline__ float whole(const Values& values) {
  float all = values.at[REVERSE ? V - 1 : 0];
#pragma unroll
  for (int v = 1; v < V; v++) all = join(all, values.at[REVERSE ? V - 1 - v : v]);
  return all;
}
// A pack in the order of the scan, where it belongs.
__device__ __forceinline__ void give(const Operands& o, int64_t (&at)[RANK], int64_t pack, const Values& values) {
  if constexpr (EVEN) {
    at[LAST] = REVERSE ? N - (pack + 1) * V : pack * V;
    if (pack < PACKS) epilogue<V>(o, values, at);
  } else {
    __shared__ __align__(16) float rows[WARPS][32 * V];
    const int lane = threadIdx.x % 32;
    float* const own = rows[threadIdx.x / 32];
    *(Values*)(own + (REVERSE ? 31 - lane : lane) * V) = values;
    __syncwarp();
    const int64_t least = REVERSE ? N - (pack - lane + 32) * V : (pack - lane) * V;
#pragma unroll
    for (int v = 0; v < V; v++) {
      at[LAST] = least + v * 32 + lane;
      if (at[LAST] >= 0 && at[LAST] < N) epilogue<1>(o, {{own[v * 32 + lane]}}, at);
    }
    __syncwarp();
  }
}
// What the threads before this one have together, and what all have. One barrier: `turn` alternates between calls.
__device__ __forceinline__ float before(float mine, float& all, int turn) {
  __shared__ float both[2][WARPS];
  float* const warps = both[turn];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float other = __shfl_up_sync(ws::FULL, mine, step);
    if (lane >= step) mine = join(other, mine);
  }
  if (lane == 31) warps[warp] = mine;
  __syncthreads();
  float earlier = lane < WARPS ? warps[lane] : IDENTITY;
#pragma unroll
  for (int step = 1; step < WARPS; step *= 2) {
    const float other = __shfl_up_sync(ws::FULL, earlier, step);
    if (lane >= step) earlier = join(other, earlier);
  }
  all = __shfl_sync(ws::FULL, earlier, WARPS - 1);
  earlier = __shfl_sync(ws::FULL, earlier, warp > 0 ? warp - 1 : 0);
  if (warp == 0) earlier = IDENTITY;
  const float left = __shfl_up_sync(ws::FULL, mine, 1);
  return lane == 0 ? earlier : join(earlier, left);
}

__global__ void __launch_bounds__(BLOCK, 1) scan(Operands o, const double* parts) {
  int64_t at[RANK];
  const int64_t row = blockIdx.x / PARTS;
  const int part = (int)(blockIdx.x % PARTS);
  place(row, at, false);
  double carry = IDENTITY;
  for (int p = 0; p < part; p++) carry = join(carry, parts[row * PARTS + p]);
  const int64_t end = (part + 1) * SHARE < TILES ? (part + 1) * SHARE : TILES;
  Values next = take(o, at, part * SHARE * BLOCK + threadIdx.x), after = next;
  if (part * SHARE + 1 < end) after = take(o, at, (part * SHARE + 1) * BLOCK + threadIdx.x);
  for (int64_t tile = part * SHARE; tile < end; tile++) {
    Values values = next;
    const int64_t pack = tile * BLOCK + threadIdx.x;
    next = after;
    if (tile + 2 < end) after = take(o, at, pack + 2 * BLOCK);
    float all;
    float run = join((float)carry, before(whole(values), all, (int)(tile & 1)));
#pragma unroll
    for (int k = 0; k < V; k++) {
      const int v = REVERSE ? V - 1 - k : k;
      const float now = join(run, values.at[v]);
      values.at[v] = EXCLUSIVE ? run : now;
      run = now;
    }
    give(o, at, pack, values);
    carry = join(carry, (double)all);
  }
}

// What each part of a row adds up to.
__global__ void __launch_bounds__(BLOCK) totals(Operands o, double* parts) {
  int64_t at[RANK];
  const int64_t row = blockIdx.x / PARTS, part = blockIdx.x % PARTS;
  place(row, at, false);
  double carry = IDENTITY;
  const int64_t end = (part + 1) * SHARE < TILES ? (part + 1) * SHARE : TILES;
  for (int64_t tile = part * SHARE; tile < end; tile++) {
    float all;
    before(whole(take(o, at, tile * BLOCK + threadIdx.x)), all, (int)(tile & 1));
    carry = join(carry, (double)all);
  }
  if (threadIdx.x == 0) parts[blockIdx.x] = carry;
}
