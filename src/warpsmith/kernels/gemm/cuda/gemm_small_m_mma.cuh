//! Small-M GEMM by mma.sync m16n8k16: 16 rows of the weight are the instruction's M, 8 tokens its N, so that a step of 32 tokens reads the weight once. A lane's
//! VEC neighbours along K, one or two 16-byte loads, are the fragments of VEC / 4 instructions: both factors take K in the same order, any order will do. Weights go from global memory
//! through the prologue (dequantisation) to registers, UNROLL steps ahead; the warps of a block share K and add up in shared memory. fp16 or bf16, fp32 accumulation.

template <class T>
__device__ __forceinline__ uint32_t pack_pair(T low, T high) {
  const ws::Pack<T, 2> pair{{low, high}};
  uint32_t bits;
  memcpy(&bits, &pair, 4);
  return bits;
}
$weight

// The operands of UNROLL steps: of the weight's rows g and g + 8 of each tile, and of token g of each tile of tokens; g = lane / 4.
struct Fragments {
  uint32_t weight[UNROLL][MMA_TILES_M][2][VEC / 2], token[UNROLL][TOKEN_TILES][VEC / 2];
};

__device__ __forceinline__ void load_token(const Operands& o, int64_t m, int64_t k, int64_t end, uint32_t (&bits)[VEC / 2]) {
  const left_t* const at = o.$left + left_at(0, m < M ? m : M - 1);
#pragma unroll
  for (int i = 0; i < VEC; i += LEFT_V < 2 ? 2 : LEFT_V) {
    if constexpr (LEFT_V >= 2) {
      ws::Pack<left_t, LEFT_V> values{};
      if (m < M && k + i < end) values = ws::load_pack<LEFT_V>(at + k + i);
#pragma unroll
      for (int v = 0; v < LEFT_V; v += 2) bits[(i + v) / 2] = pack_pair(values.at[v], values.at[v + 1]);
    } else {
      left_t pair[2];
#pragma unroll
      for (int v = 0; v < 2; v++) pair[v] = m < M && k + i + v < end ? at[(k + i + v) * LEFT_K] : ws::store_as<left_t>(0.0f);
      bits[i / 2] = pack_pair(pair[0], pair[1]);
    }
  }
}

__device__ __forceinline__ void load_fragments(const Operands& o, Fragments& f, int64_t n, int64_t m, int64_t k, int64_t end) {
#pragma unroll
  for (int u = 0; u < UNROLL; u++)
#pragma unroll
    for (int tile = 0; tile < MMA_TILES_M; tile++)
#pragma unroll
      for (int half = 0; half < 2; half++)
        load_weight(o, n + tile * 16 + half * 8, k + (int64_t)u * WARPS * STEP, end, f.weight[u][tile][half]);
#pragma unroll
  for (int u = 0; u < UNROLL; u++)
#pragma unroll
    for (int tile = 0; tile < TOKEN_TILES; tile++) load_token(o, m + tile * 8, k + (int64_t)u * WARPS * STEP, end, f.token[u][tile]);
}

__device__ __forceinline__ void multiply(float (&sums)[MMA_TILES_M][TOKEN_TILES][4], const Fragments& f) {
#pragma unroll
  for (int u = 0; u < UNROLL; u++)
#pragma unroll
    for (int s = 0; s < VEC / 4; s++)
#pragma unroll
      for (int tile = 0; tile < MMA_TILES_M; tile++) {
        const uint32_t a[4] = {f.weight[u][tile][0][2 * s], f.weight[u][tile][1][2 * s], f.weight[u][tile][0][2 * s + 1], f.weight[u][tile][1][2 * s + 1]};
#pragma unroll
        for (int t = 0; t < TOKEN_TILES; t++) {
          const uint32_t b[2] = {f.token[u][t][2 * s], f.token[u][t][2 * s + 1]};
          ws::mma_$kind(sums[tile][t], a, b);
        }
      }
}

// The sums of a block's warps, in its first warp: at each step half of them hand theirs over.
__device__ __forceinline__ void add_warps(float (&sums)[MMA_TILES_M][TOKEN_TILES][4]) {
  __shared__ float room[WARPS > 1 ? WARPS / 2 : 1][MMA_TILES_M][TOKEN_TILES][4][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int half = WARPS / 2; half > 0; half /= 2) {
#pragma unroll
    for (int tile = 0; tile < MMA_TILES_M; tile++)
#pragma unroll
      for (int t = 0; t < TOKEN_TILES; t++)
#pragma unroll
        for (int i = 0; i < 4; i++)
          if (warp >= half && warp < 2 * half) room[warp - half][tile][t][i][lane] = sums[tile][t][i];
    __syncthreads();
#pragma unroll
    for (int tile = 0; tile < MMA_TILES_M; tile++)
#pragma unroll
      for (int t = 0; t < TOKEN_TILES; t++)
#pragma unroll
        for (int i = 0; i < 4; i++)
          if (warp < half) sums[tile][t][i] += room[warp][tile][t][i][lane];
    __syncthreads();
  }
}

__global__ void __launch_bounds__(BLOCK) product(Operands o, float* partial) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, quad = lane % 4;
  const int64_t part = blockIdx.x % PARTS, rest = blockIdx.x / PARTS, first_row = rest % ROW_BLOCKS * ROWS, first_token = rest / ROW_BLOCKS * (8 * TOKEN_TILES);
  const int64_t start = part * SHARE * BK, end = start + SHARE * BK < K ? start + SHARE * BK : K;
  float sums[MMA_TILES_M][TOKEN_TILES][4] = {};
  const int64_t n = first_row + g, m = first_token + g;
  int64_t k = start + warp * STEP + quad * VEC;
  Fragments now, next;
  load_fragments(o, now, n, m, k, end);
  // All lanes of a warp take as many steps: instructions are the warp's.
  for (int64_t at = start; at < end; at += BK, k += BK) {
    load_fragments(o, next, n, m, k + BK, end);
    multiply(sums, now);
    now = next;
  }
  add_warps(sums);
  __shared__ float tile[8 * TOKEN_TILES][ROWS + 1];
  if (warp == 0) {
#pragma unroll
    for (int i = 0; i < MMA_TILES_M; i++)
#pragma unroll
      for (int t = 0; t < TOKEN_TILES; t++)
#pragma unroll
        for (int e = 0; e < 4; e++) tile[t * 8 + quad * 2 + e % 2][i * 16 + g + e / 2 * 8] = sums[i][t][e];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 8 * TOKEN_TILES * ROWS; i += BLOCK) {
    const int64_t token = first_token + i / ROWS, row = first_row + i % ROWS;
    if (token >= M || row >= N) continue;
    const float sum = tile[i / ROWS][i % ROWS];
    if constexpr (PARTS == 1) finish<1>(o, 0, token, row, ws::Pack<float, 1>{{sum}});
    else partial[(part * M + token) * N + row] = sum;
  }
}
