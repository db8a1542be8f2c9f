//! FlashAttention-2 by mma.sync m16n8k16 (https://arxiv.org/abs/2307.08691): a block has QUERIES rows of one head, 16 or 32 a warp. Tiles of KEYS keys and values come by cp.async
//! through STAGES stages of padded shared memory; scores, the online softmax and the sums stay in registers, weights become the left factor of the next product there.
//! fp16 or bf16 factors, fp32 sums; with two WEIGHT_PARTS a weight is a sum of two halves, as exact as fp32. Tiles that no row of the block sees are not read. Values: types, sizes and strides, indices of a head, the scale, the score's chain.
constexpr int WARPS = QUERIES < BLOCK / 2 ? QUERIES / 16 : BLOCK / 32, THREADS = 32 * WARPS;
constexpr int TILES_M = QUERIES / (16 * WARPS);  // tiles of 16 rows, of a warp
$common
// Rows in shared memory are an odd number of 16-byte chunks apart: the eight that ldmatrix reads at once lie in different banks.
constexpr int PITCH = PADDED_DEPTH + 8, PITCH_OUT = PADDED_OUT + 8;
constexpr int QUERY_TILE = QUERIES * PITCH, KEY_TILE = KEYS * PITCH, VALUE_TILE = KEYS * PITCH_OUT;
constexpr int SHARED = 2 * (QUERY_TILE + STAGES * (KEY_TILE + VALUE_TILE));
constexpr bool KEEPS_QUERIES = TILES_M * PADDED_DEPTH <= 128;  // in 32 registers at most
static_assert(QUERIES % (16 * WARPS) == 0 && KEYS % 16 == 0 && STAGES >= 1, "whole tiles");

// COUNT rows from `first` on, to shared memory PITCHED elements apart; zeros beyond the last row and beyond FEATURES.
template <int COUNT, int64_t FEATURES, int PITCHED, int V, int64_t ROW_STRIDE, int64_t STRIDE>
__device__ __forceinline__ void copy_rows(half_t* to, const half_t* from, int first, int rows) {
  constexpr int PER_ROW = (PITCHED - 8) / V, LINES = PER_ROW < THREADS ? THREADS / PER_ROW : 1;  // copies of a row; rows at once
  if (LINES * PER_ROW < THREADS && (int)threadIdx.x >= LINES * PER_ROW) return;
  const int line = threadIdx.x / PER_ROW;
#pragma unroll
  for (int column = threadIdx.x % PER_ROW; column < PER_ROW; column += THREADS) {
    const half_t* const source = from + (first + line) * ROW_STRIDE + column * V * STRIDE;
    half_t* const target = to + line * PITCHED + column * V;
#pragma unroll
    for (int r = 0; r < COUNT; r += LINES) {
      if (COUNT % LINES != 0 && line + r >= COUNT) break;
      const bool there = first + line + r < rows && column * V < FEATURES;
      if constexpr (V > 1) ws::copy_async<2 * V>(target + r * PITCHED, source + r * ROW_STRIDE, there);
      else target[r * PITCHED] = there ? source[r * ROW_STRIDE] : ws::store_as<half_t>(0.0f);
    }
  }
}

__device__ __forceinline__ void load_queries(uint32_t (&a)[4], const half_t* rows, int step) {
  const int lane = threadIdx.x % 32;
  ws::ldmatrix_x4(a, rows + lane % 16 * PITCH + step * 16 + lane / 16 * 8);
}

// Scores of a warp's rows against a tile of keys.
__device__ __forceinline__ void multiply_keys(Scores& scores, const uint32_t (&kept)[TILES_M][KEEPS_QUERIES ? PADDED_DEPTH / 16 : 1][4],
                                              const half_t* rows, const half_t* keys) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 0; step < PADDED_DEPTH / 16; step++) {
    uint32_t a[TILES_M][4];
#pragma unroll
    for (int m = 0; m < TILES_M; m++) {
      if constexpr (KEEPS_QUERIES) {
#pragma unroll
        for (int i = 0; i < 4; i++) a[m][i] = kept[m][step][i];
      } else {
        load_queries(a[m], rows + m * 16 * PITCH, step);
      }
    }
#pragma unroll
    for (int n = 0; n < KEYS / 16; n++) {
      uint32_t b[4];
      ws::ldmatrix_x4(b, keys + (n * 16 + lane / 16 * 8 + lane % 8) * PITCH + step * 16 + lane / 8 % 2 * 8);
      const uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
#pragma unroll
      for (int m = 0; m < TILES_M; m++) ws::mma_$kind(scores[m][2 * n], a[m], low), ws::mma_$kind(scores[m][2 * n + 1], a[m], high);
    }
  }
}

// Adds weights times values: two tiles of scores are a left factor as they lie.
__device__ __forceinline__ void multiply_values(Sums& sums, const Scores& weights, const half_t* values) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 0; step < KEYS / 16; step++) {
    uint32_t a[PARTS][TILES_M][4];
#pragma unroll
    for (int m = 0; m < TILES_M; m++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        uint32_t parts[PARTS];
        pack_parts(parts, weights[m][2 * step + i / 2] + i % 2 * 2);
#pragma unroll
        for (int p = 0; p < PARTS; p++) a[p][m][i] = parts[p];
      }
#pragma unroll
    for (int n = 0; n < PADDED_OUT / 16; n++) {
      uint32_t b[4];
      ws::ldmatrix_x4_trans(b, values + (step * 16 + lane % 16) * PITCH_OUT + n * 16 + lane / 16 * 8);
      const uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
#pragma unroll
      for (int p = PARTS - 1; p >= 0; p--)
#pragma unroll
        for (int m = 0; m < TILES_M; m++) ws::mma_$kind(sums[m][2 * n], a[p][m], low), ws::mma_$kind(sums[m][2 * n + 1], a[p][m], high);
    }
  }
}

__global__ void __launch_bounds__(THREADS) attend(Operands o) {
  half_t* const query_rows = reinterpret_cast<half_t*>(ws::dynamic_shared());
  half_t* const key_rows = query_rows + QUERY_TILE;
  half_t* const value_rows = key_rows + STAGES * KEY_TILE;
  $head
  const auto load_keys = [&](int tile, int stage) {
    if (tile < tiles)
      copy_rows<KEYS, DEPTH, PITCH, KEY_VEC, $key_strides>(key_rows + stage * KEY_TILE, keys, (int)seen_begin + tile * KEYS, (int)KEY_COUNT);
    ws::copy_commit();
  };
  const auto load_values = [&](int tile, int stage) {
    if (tile < tiles)
      copy_rows<KEYS, WIDTH_OUT, PITCH_OUT, VALUE_VEC, $value_strides>(value_rows + stage * VALUE_TILE, values, (int)seen_begin + tile * KEYS, (int)KEY_COUNT);
    ws::copy_commit();
  };

  copy_rows<QUERIES, DEPTH, PITCH, QUERY_VEC, $query_strides>(query_rows, queries, first_row, (int)ROW_COUNT);
  ws::copy_commit();
#pragma unroll
  for (int s = 0; s < STAGES; s++) {
    load_keys(s, s);
    if (s < STAGES - 1) load_values(s, s);
  }
  ws::copy_wait<2 * STAGES - 1>();
  __syncthreads();
  const int lane = threadIdx.x % 32, warp_row = first_row + (int)threadIdx.x / 32 * (16 * TILES_M), warp_end = warp_row + 16 * TILES_M - 1;
  const half_t* const warp_queries = query_rows + (warp_row - first_row) * PITCH;
  uint32_t kept[TILES_M][KEEPS_QUERIES ? PADDED_DEPTH / 16 : 1][4];
  if constexpr (KEEPS_QUERIES) {
#pragma unroll
    for (int m = 0; m < TILES_M; m++)
#pragma unroll
      for (int step = 0; step < PADDED_DEPTH / 16; step++) load_queries(kept[m][step], warp_queries + m * 16 * PITCH, step);
  }
  Sums sums = {};
  Softmax state;
#pragma unroll
  for (int m = 0; m < TILES_M; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) state.max[m][half] = -INFINITY, state.norm[m][half] = 0.0f;

  int stage = 0;
#pragma unroll 1
  for (int tile = 0; tile < tiles; tile++) {
    const int key = (int)seen_begin + tile * KEYS;
    const bool seen = warp_row < ROW_COUNT && !(CAUSAL && key > warp_end + LIMIT) && !(WINDOWED && key + KEYS - 1 < warp_row + FLOOR);
    ws::copy_wait<2 * (STAGES - 1)>();
    __syncthreads();  // this tile's keys have come; the values before them have been read
    load_values(tile + STAGES - 1, stage == 0 ? STAGES - 1 : stage - 1);
    Scores scores = {};
    if (seen) {
      multiply_keys(scores, kept, warp_queries, key_rows + stage * KEY_TILE);
      prepare_scores(o, scores, score_at, sign, warp_row, key);
      float rescale[TILES_M][2];
      weigh(scores, rescale, state, factor);
      scale_sums(sums, rescale);
    }
    ws::copy_wait<2 * (STAGES - 1)>();
    __syncthreads();  // this tile's values have come; its keys have been read
    load_keys(tile + STAGES, stage);
    if (seen) multiply_values(sums, scores, value_rows + stage * VALUE_TILE);
    if (++stage == STAGES) stage = 0;
  }
  store_sums(o, sums, state, out_at, warp_row + lane / 4);
}
