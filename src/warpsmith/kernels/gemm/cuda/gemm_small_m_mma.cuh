//! Small-M GEMM by mma.sync m16n8k16: 16 rows of the weight are the instruction's M, 8 tokens its N. Weights go as they lie in memory by cp.async into places of shared
//! memory that belong to one lane each, RING_STAGES steps ahead, so that no barrier stands between loads and products; there a lane dequantises what it copied. A lane's VEC
//! neighbours along K are the fragments of VEC / 4 instructions: both factors take K in the same order, any order will do. Persistent blocks hold their tokens in
//! shared memory, too; the warps of a block share K and add up there. fp16 or bf16, fp32 accumulation.
$weight
// Shared memory of a block: its tokens' part of K where there is room, of which each warp brings and reads what its own steps take; the weights under way; the sums
// of its warps. Rows of tokens begin where lanes that read two of them at once meet no bank twice.
constexpr int64_t TOKEN_PITCH = SHARE * BK * 2 + (VEC == 8 ? 64 : 16), TOKEN_BYTES = 8 * TOKEN_TILES * TOKEN_PITCH;
constexpr int STAGE_PLACES = 2 * MMA_TILES_M * prologue0_places, SUMS = 4 * MMA_TILES_M * TOKEN_TILES;
constexpr int64_t WEIGHT_BYTES = (int64_t)RING_STAGES * STAGE_PLACES * PLACE_PITCH, SUM_BYTES = 2 * (int64_t)SUMS * BLOCK * 4;
constexpr bool RESIDENT = TOKENS_RESIDENT && TOKEN_BYTES + WEIGHT_BYTES + SUM_BYTES <= 227 << 10;
constexpr int SHARED = (int)((RESIDENT ? TOKEN_BYTES : 0) + WEIGHT_BYTES + SUM_BYTES);

// Eight neighbours of a token as pairs, in the order in which the weight's are.
struct alignas(16) Octet {
  uint32_t pair[4];
};
__device__ __forceinline__ Octet in_order(const Octet& octet) {
  const uint32_t(&x)[4] = octet.pair;
  if constexpr (PERMUTE) return {{__byte_perm(x[0], x[2], 0x5410), __byte_perm(x[0], x[2], 0x7632), __byte_perm(x[1], x[3], 0x5410), __byte_perm(x[1], x[3], 0x7632)}};
  return octet;
}
__device__ __forceinline__ Octet read_token(const Operands& o, int64_t m, int64_t k) {
  const left_t* const at = o.$left + left_at(0, m < M ? m : M - 1);
  left_t values[8];
#pragma unroll
  for (int i = 0; i < 8; i += LEFT_V) {
    ws::Pack<left_t, LEFT_V> some{};
    if (m < M && k + i < K) some = ws::load_pack<LEFT_V>(at + (k + i) * LEFT_K);
#pragma unroll
    for (int v = 0; v < LEFT_V; v++) values[i + v] = some.at[v];
  }
  Octet octet;
#pragma unroll
  for (int i = 0; i < 4; i++) octet.pair[i] = ws::make_pair(values[2 * i], values[2 * i + 1]).bits;
  return in_order(octet);
}

// A warp's tokens of one step on their way to shared memory, from where `k` is for all lanes; and what is left to do when they are there.
template <class F>
__device__ __forceinline__ void each_octet(unsigned char* tokens, const F& f) {
#pragma unroll
  for (int i = 0; i < TOKEN_TILES * STEP / 32; i++) {
    const int octet = i * 32 + threadIdx.x % 32, m = octet / (STEP / 8), k = octet % (STEP / 8) * 8;
    f(reinterpret_cast<Octet*>(tokens + m * TOKEN_PITCH + k * 2), m, k);
  }
}
__device__ __forceinline__ void copy_tokens(const Operands& o, int64_t first, int64_t start, unsigned char* tokens) {
  each_octet(tokens, [&](Octet* to, int row, int column) {
    const int64_t m = first + row, k = start + column;
    if constexpr (LEFT_V == 8) ws::copy_async<16>(to, o.$left + left_at(0, m < M ? m : M - 1) + k, m < M && (WHOLE_K || k < K));
    else *to = read_token(o, m, k);
  });
}
__device__ __forceinline__ void keep_tokens(unsigned char* tokens) {
  if constexpr (LEFT_V == 8 && PERMUTE) each_octet(tokens, [](Octet* octet, int, int) { *octet = in_order(*octet); });
  __syncwarp();
}

// The fragments of one step: of the weight's rows g and g + 8 of each tile, of token g of each tile of tokens; g = lane / 4.
__device__ __forceinline__ void multiply(float (&sums)[MMA_TILES_M][TOKEN_TILES][4], const Operands& o, const Uniform (&uniform)[2 * MMA_TILES_M], int64_t m, int64_t k, const unsigned char* weight,
                                         const unsigned char* token) {
  uint32_t a[MMA_TILES_M][2][VEC / 2];
#pragma unroll
  for (int tile = 0; tile < MMA_TILES_M; tile++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      make_weight(uniform[2 * tile + half], k, weight + (2 * tile + half) * prologue0_places * PLACE_PITCH, a[tile][half]);
#pragma unroll
  for (int t = 0; t < TOKEN_TILES; t++) {
    uint32_t b[VEC / 2];
#pragma unroll
    for (int i = 0; i < VEC / 8; i++) {
      const Octet octet = RESIDENT ? *reinterpret_cast<const Octet*>(token + 8 * t * TOKEN_PITCH + i * 16) : read_token(o, m + 8 * t, k + 8 * i);
#pragma unroll
      for (int p = 0; p < 4; p++) b[4 * i + p] = octet.pair[p];
    }
#pragma unroll
    for (int s = 0; s < VEC / 4; s++)
#pragma unroll
      for (int tile = 0; tile < MMA_TILES_M; tile++) {
        const uint32_t rows[4] = {a[tile][0][2 * s], a[tile][1][2 * s], a[tile][0][2 * s + 1], a[tile][1][2 * s + 1]};
        const uint32_t columns[2] = {b[2 * s], b[2 * s + 1]};
        ws::mma_$kind(sums[tile][t], rows, columns);
      }
  }
}

// One sum, of all warps.
__device__ __forceinline__ float add_up(const float* room) {
  float sum = 0.0f;
#pragma unroll
  for (int w = 0; w < WARPS; w++) sum += room[w * SUMS * 32];
  return sum;
}
// The sums of a tile from all warps, to the outputs or to `partial`, the sums of one part. `room`: of every other tile, so that one barrier is enough.
__device__ __forceinline__ void finish_tile(const Operands& o, const float (&sums)[MMA_TILES_M][TOKEN_TILES][4], float* room, int64_t first_row, int64_t first_token, int64_t part, float* partial) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int i = 0; i < SUMS; i++) room[(warp * SUMS + i) * 32 + lane] = sums[i / 4 / TOKEN_TILES][i / 4 % TOKEN_TILES][i % 4];
  __syncthreads();
  for (int i = threadIdx.x; i < SUMS * 32; i += BLOCK) {
    const float sum = add_up(room + i);
    const int element = i / 32 % 4, of = i % 32, t = i / 128 % TOKEN_TILES, tile = i / 128 / TOKEN_TILES;
    const int64_t row = first_row + (2 * tile + element / 2) / WEIGHTS * 8 + of / 4, token = first_token + t * 8 + of % 4 * 2 + element % 2;
    if (token >= M || row >= N || is_second(element / 2)) continue;  // the first half's thread adds the other up, too
    $store
  }
}

__global__ void __launch_bounds__(BLOCK) product(Operands o, float* partial) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4;
  const int64_t group = blockIdx.x % (unsigned)GROUPS, part = group % PARTS, first_token = group / PARTS * (8 * TOKEN_TILES), start = part * SHARE * BK;
  const int first_tile = blockIdx.x / (unsigned)GROUPS, each = gridDim.x / (unsigned)GROUPS;
  unsigned char* const tokens = ws::dynamic_shared();
  unsigned char* const weights = tokens + (RESIDENT ? TOKEN_BYTES : 0) + 16 * threadIdx.x;
  float* const room = reinterpret_cast<float*>(tokens + (RESIDENT ? TOKEN_BYTES : 0) + WEIGHT_BYTES);
  const int64_t within = warp * STEP + lane % 4 * VEC;
  const auto tokens_of = [&](int step) { return tokens + (step * BK + warp * STEP) * 2; };
  int prefetch_tile = first_tile, prefetch_step = 0, prefetch_stage = 0, stage = 0, turn = 0;
  const auto prefetch = [&] {
    if (prefetch_tile < ROW_BLOCKS) {
#pragma unroll
      for (int i = 0; i < 2 * MMA_TILES_M; i++)
        copy_weight(o, is_second(i), (int64_t)prefetch_tile * ROWS + g + 8 * (i / WEIGHTS), start + within + prefetch_step * BK,
                    weights + (prefetch_stage * STAGE_PLACES + i * prologue0_places) * PLACE_PITCH);
    }
    if (RESIDENT && prefetch_tile == first_tile) copy_tokens(o, first_token, start + prefetch_step * BK + warp * STEP, tokens_of(prefetch_step));
    ws::copy_commit();
    if (++prefetch_stage == RING_STAGES) prefetch_stage = 0;
    if (++prefetch_step == SHARE) prefetch_step = 0, prefetch_tile += each;
  };
#pragma unroll 1
  for (int i = 0; i < RING_STAGES - 1; i++) prefetch();
  Uniform uniform[2 * MMA_TILES_M], next[2 * MMA_TILES_M];
  const auto read_ahead = [&](int tile, int step, Uniform (&rows)[2 * MMA_TILES_M]) {
#pragma unroll
    for (int i = 0; i < 2 * MMA_TILES_M; i++) read_uniform(o, (int64_t)tile * ROWS + g + 8 * (i / WEIGHTS), start + within + step * BK, rows[i]);
  };
  read_ahead(first_tile, 0, next);
  for (int tile = first_tile; tile < ROW_BLOCKS; tile += each) {
    float sums[MMA_TILES_M][TOKEN_TILES][4] = {};
    // All lanes of a warp take as many steps: instructions are the warp's.
#pragma unroll 1
    for (int step = 0; step < SHARE; step++) {
      prefetch();
      if (!SAME_ALONG_ROWS || step == 0) {  // read a step, or a tile, before
#pragma unroll
        for (int i = 0; i < 2 * MMA_TILES_M; i++) uniform[i] = next[i];
        const bool last = SAME_ALONG_ROWS || step + 1 == SHARE;
        read_ahead(last && tile + each < ROW_BLOCKS ? tile + each : tile, last ? 0 : step + 1, next);
      }
      ws::copy_wait<RING_STAGES - 1>();
      if (RESIDENT && tile == first_tile) keep_tokens(tokens_of(step));
      multiply(sums, o, uniform, first_token + g, start + within + step * BK, weights + stage * STAGE_PLACES * PLACE_PITCH,
               tokens_of(step) + g * TOKEN_PITCH + lane % 4 * VEC * 2);
      if (++stage == RING_STAGES) stage = 0;
    }
    finish_tile(o, sums, room + turn * SUMS * BLOCK, (int64_t)tile * ROWS, first_token, part, partial);
    turn ^= 1;
  }
}
