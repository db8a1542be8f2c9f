//! FlashAttention-2 by mma.sync m16n8k16 (https://arxiv.org/abs/2307.08691): a block has QUERIES rows of one head, 16 or 32 a warp. Tiles of KEYS keys and values come by cp.async
//! through STAGES stages of padded shared memory; scores, the online softmax and the sums stay in registers, weights become the left factor of the next product there.
//! fp16 or bf16 factors, fp32 sums; with two WEIGHT_PARTS a weight is a sum of two halves, as exact as fp32. Tiles that no row of the block sees are not read. Values: types, sizes and strides, indices of a head, the scale, the score's chain.

typedef $element half_t;
constexpr int64_t SIZE(int64_t n) { return n > 0 ? n : 1; }  // to divide by
constexpr int64_t HEADS = $heads, ROW_COUNT = $rows, KEY_COUNT = $keys, DEPTH = WIDTH, WIDTH_OUT = $width_out;
constexpr bool CAUSAL = $causal, WINDOWED = $windowed, MAPPED = $mapped;
constexpr int64_t LIMIT = $limit, FLOOR = $floor;  // a row sees keys from row + FLOOR to row + LIMIT
constexpr int WARPS = QUERIES < BLOCK / 2 ? QUERIES / 16 : BLOCK / 32, THREADS = 32 * WARPS;
constexpr int PARTS = $weight_parts;  // of a weight
constexpr int TILES_M = QUERIES / (16 * WARPS);  // tiles of 16 rows, of a warp
constexpr int PADDED_DEPTH = (int)ws::ceil_div(DEPTH, 16) * 16, PADDED_OUT = (int)ws::ceil_div(WIDTH_OUT, 16) * 16;
// Rows in shared memory are an odd number of 16-byte chunks apart: the eight that ldmatrix reads at once lie in different banks.
constexpr int PITCH = PADDED_DEPTH + 8, PITCH_OUT = PADDED_OUT + 8;
constexpr int QUERY_TILE = QUERIES * PITCH, KEY_TILE = KEYS * PITCH, VALUE_TILE = KEYS * PITCH_OUT;
constexpr int SHARED = 2 * (QUERY_TILE + STAGES * (KEY_TILE + VALUE_TILE));
constexpr bool KEEPS_QUERIES = TILES_M * PADDED_DEPTH <= 128;  // in 32 registers at most
constexpr int64_t ROW_BLOCKS = ws::ceil_div(ROW_COUNT, (int64_t)QUERIES);
// Blocks that run side by side are those of heads whose keys and values stay in the L2 cache together.
constexpr int64_t HEAD_BYTES = 2 * KEY_COUNT * (DEPTH + WIDTH_OUT) / $group, NEAR_BYTES = 16 << 20;
constexpr int64_t NEAR_HEADS = HEAD_BYTES * HEADS <= NEAR_BYTES ? HEADS : NEAR_BYTES / HEAD_BYTES > 1 ? NEAR_BYTES / HEAD_BYTES : 1;
constexpr float LOG2_E = 1.44269504f, LARGEST_LIFT = 64.0f;
static_assert(QUERIES % (16 * WARPS) == 0 && KEYS % 16 == 0 && STAGES >= 1, "whole tiles");
static_assert(ROW_COUNT < (1 << 30) && KEY_COUNT < (1 << 30), "requires: fewer than 2^30 queries and keys");

// Elements that one copy moves: all rows begin at a multiple of it. `feature`: the dimension of features.
constexpr int vector_of(const int64_t* shape, const int64_t* stride, int rank, int feature) {
  int v = 8;
  for (int d = 0; d < rank; d++)
    while (d != feature && shape[d] != 1 && stride[d] % v != 0) v /= 2;
  while (shape[feature] % v != 0) v /= 2;
  return stride[feature] == 1 || shape[feature] == 1 ? v : 1;
}
constexpr int QUERY_VEC = vector_of($query_layout), KEY_VEC = vector_of($key_layout), VALUE_VEC = vector_of($value_layout);

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

typedef float Scores[TILES_M][KEYS / 8][4];
typedef float Sums[TILES_M][PADDED_OUT / 8][4];
struct Softmax {
  float max[TILES_M][2], norm[TILES_M][2];  // of rows g and g + 8 of a tile, g = lane / 4; norms of this lane's columns alone
};

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

// What the graph does to scores, on pairs of neighbours; one by one where the last pair has no second key.
__device__ __forceinline__ void map_scores(const Operands& o, Scores& scores, int64_t* at, int first_row, int first_key) {
#pragma unroll
  for (int m = 0; m < TILES_M; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int row = first_row + m * 16 + half * 8;
      at[SCORE_RANK - 2] = row < ROW_COUNT ? row : ROW_COUNT - 1;
#pragma unroll
      for (int n = 0; n < KEYS / 8; n++) {
        float* const pair = scores[m][n] + 2 * half;
        at[SCORE_RANK - 1] = first_key + n * 8;
        if (first_key + n * 8 + 1 < KEY_COUNT) {
          const ws::Pack<float, 2> mapped = map_score<2>(o, ws::Pack<float, 2>{{pair[0], pair[1]}}, at);
          pair[0] = mapped.at[0], pair[1] = mapped.at[1];
        } else if (first_key + n * 8 < KEY_COUNT) {
          pair[0] = map_score<1>(o, ws::Pack<float, 1>{{pair[0]}}, at).at[0];
        }
      }
    }
}

__device__ __forceinline__ void hide_keys(Scores& scores, int first_row, int first_key) {
#pragma unroll
  for (int m = 0; m < TILES_M; m++)
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int row = first_row + m * 16 + i / 2 * 8, key = first_key + n * 8 + i % 2;
        if (key >= KEY_COUNT || (CAUSAL && key > row + LIMIT) || (WINDOWED && key < row + FLOOR)) scores[m][n][i] = -INFINITY;
      }
}

// Turns scores into weights, 2^(factor * (score - maximum)), and scales the sums so far to the new maximum. A NaN stays in its row.
// A score costs one fused multiply-add, factor * score - factor * maximum, of which the second product is rounded: by 2^-24 of itself, so
// that the largest score's weight is not quite 1. Where that product is large it could be anything from zero to infinity; there the maximum
// is subtracted first.
__device__ __forceinline__ void add_weights(Scores& scores, Sums& sums, Softmax& state, float factor) {
#pragma unroll
  for (int m = 0; m < TILES_M; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float max = state.max[m][half];
#pragma unroll
      for (int n = 0; n < KEYS / 8; n++) max = fmaxf(max, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
      max = fmaxf(max, __shfl_xor_sync(ws::FULL, max, 1));
      max = fmaxf(max, __shfl_xor_sync(ws::FULL, max, 2));
      const float base = max == -INFINITY ? 0.0f : max, scale = ws::exp2_approximate((state.max[m][half] - base) * factor);
      float norm = state.norm[m][half] * scale, lift = -base * factor;
      state.max[m][half] = max;
      if (fabsf(lift) > LARGEST_LIFT) {
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; i++) scores[m][n][i] = __fsub_rn(scores[m][n][i], base);
        lift = 0.0f;
      }
#pragma unroll
      for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; i++) {
          scores[m][n][i] = ws::exp2_approximate(fmaf(scores[m][n][i], factor, lift));
          norm += scores[m][n][i];
        }
      state.norm[m][half] = norm;
#pragma unroll
      for (int n = 0; n < PADDED_OUT / 8; n++) sums[m][n][2 * half] *= scale, sums[m][n][2 * half + 1] *= scale;
    }
}

// Adds weights times values: two tiles of scores are a left factor as they lie. Of two parts the second is what rounding the first leaves out.
__device__ __forceinline__ void multiply_values(Sums& sums, const Scores& weights, const half_t* values) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 0; step < KEYS / 16; step++) {
    uint32_t a[PARTS][TILES_M][4];
#pragma unroll
    for (int m = 0; m < TILES_M; m++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const float* const pair = weights[m][2 * step + i / 2] + i % 2 * 2;
        a[0][m][i] = ws::pack_$kind(pair[0], pair[1]);
        if constexpr (PARTS == 2) {
          const ws::Pack<float, 2> rounded = ws::unpack_$kind(a[0][m][i]);
          a[1][m][i] = ws::pack_$kind(pair[0] - rounded.at[0], pair[1] - rounded.at[1]);
        }
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

// Four lanes that have two columns each of four blocks of 8: lane t gets all of block t.
__device__ __forceinline__ ws::Pack<float, 8> gather_block(const float (&pairs)[4][2]) {
  const bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
  float halves[2][4];  // of block 0 or 1, and of 2 or 3
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int c = 0; c < 2; c++) {
      const float kept = odd ? pairs[2 * i + 1][c] : pairs[2 * i][c];
      const float other = __shfl_xor_sync(ws::FULL, odd ? pairs[2 * i][c] : pairs[2 * i + 1][c], 1);
      halves[i][c] = odd ? other : kept, halves[i][2 + c] = odd ? kept : other;
    }
  ws::Pack<float, 8> block;
#pragma unroll
  for (int c = 0; c < 4; c++) {
    const float kept = upper ? halves[1][c] : halves[0][c], other = __shfl_xor_sync(ws::FULL, upper ? halves[0][c] : halves[1][c], 2);
    block.at[c] = upper ? other : kept, block.at[4 + c] = upper ? kept : other;
  }
  return block;
}

// Divides the sums by their norms and stores them through the epilogue. `at`: the head's index.
__device__ __forceinline__ void store_sums(const Operands& o, const Sums& sums, const Softmax& state, int64_t* at, int first_row) {
  constexpr int V = PADDED_OUT % 32 == 0 && WIDTH_OUT % 8 == 0 ? 8 : WIDTH_OUT % 2 == 0 ? 2 : 1;
  const int lane = threadIdx.x % 4;
#pragma unroll
  for (int m = 0; m < TILES_M; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float norm = state.norm[m][half];
      norm += __shfl_xor_sync(ws::FULL, norm, 1);
      norm += __shfl_xor_sync(ws::FULL, norm, 2);
      const float share = norm == 0.0f && $zero_without_keys ? 0.0f : 1.0f / norm;
      const int row = first_row + m * 16 + half * 8;
      at[OUT_RANK - 2] = row;
#pragma unroll
      for (int n = 0; n < PADDED_OUT / 8; n += V == 8 ? 4 : 1) {
        if constexpr (V == 8) {
          float pairs[4][2];
#pragma unroll
          for (int b = 0; b < 4; b++) pairs[b][0] = sums[m][n + b][2 * half] * share, pairs[b][1] = sums[m][n + b][2 * half + 1] * share;
          const ws::Pack<float, 8> block = gather_block(pairs);
          at[OUT_RANK - 1] = (n + lane) * 8;
          if (row < ROW_COUNT && (n + lane) * 8 < WIDTH_OUT) epilogue<8>(o, block, at);
        } else {
#pragma unroll
          for (int i = 0; i < 2; i += V) {
            ws::Pack<float, V> values;
#pragma unroll
            for (int v = 0; v < V; v++) values.at[v] = sums[m][n][2 * half + i + v] * share;
            at[OUT_RANK - 1] = n * 8 + lane * 2 + i;
            if (row < ROW_COUNT && n * 8 + lane * 2 + i < WIDTH_OUT) epilogue<V>(o, values, at);
          }
        }
      }
    }
}

__global__ void __launch_bounds__(THREADS) attend(Operands o) {
  half_t* const query_rows = reinterpret_cast<half_t*>(ws::dynamic_shared());
  half_t* const key_rows = query_rows + QUERY_TILE;
  half_t* const value_rows = key_rows + STAGES * KEY_TILE;
  // Of the heads that are near, the last rows go first: they see most keys of a diagonal.
  const int64_t batch = blockIdx.x / (NEAR_HEADS * ROW_BLOCKS), number = blockIdx.x % (NEAR_HEADS * ROW_BLOCKS);
  const int64_t near = HEADS - batch * NEAR_HEADS < NEAR_HEADS ? HEADS - batch * NEAR_HEADS : NEAR_HEADS;
  const int64_t head = batch * NEAR_HEADS + number % near;
  const int first_row = (int)(ROW_BLOCKS - 1 - number / near) * QUERIES;
  $indices
  const half_t* const queries = $query_start;
  const half_t* const keys = $key_start;
  const half_t* const values = $value_start;
  int64_t score_at[] = {$score_index}, out_at[] = {$out_index};
  const float scale = MAPPED ? 1.0f : $scale, sign = scale < 0.0f ? -1.0f : 1.0f, factor = sign * scale * LOG2_E;

  const int last_row = (first_row + QUERIES < ROW_COUNT ? first_row + QUERIES : (int)ROW_COUNT) - 1;
  const int64_t seen_end = CAUSAL && last_row + LIMIT + 1 < KEY_COUNT ? last_row + LIMIT + 1 : KEY_COUNT;
  const int64_t seen_begin = WINDOWED && first_row + FLOOR > 0 ? (first_row + FLOOR) / KEYS * KEYS : 0;
  const int tiles = seen_end > seen_begin ? (int)((seen_end - seen_begin + KEYS - 1) / KEYS) : 0;
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
    const int key = (int)seen_begin + tile * KEYS, row = warp_row + lane / 4, column = key + lane % 4 * 2;
    const bool seen = warp_row < ROW_COUNT && !(CAUSAL && key > warp_end + LIMIT) && !(WINDOWED && key + KEYS - 1 < warp_row + FLOOR);
    ws::copy_wait<2 * (STAGES - 1)>();
    __syncthreads();  // this tile's keys have come; the values before them have been read
    load_values(tile + STAGES - 1, stage == 0 ? STAGES - 1 : stage - 1);
    Scores scores = {};
    if (seen) {
      multiply_keys(scores, kept, warp_queries, key_rows + stage * KEY_TILE);
      if (MAPPED) map_scores(o, scores, score_at, row, column);
      if (sign < 0.0f) {
#pragma unroll
        for (int m = 0; m < TILES_M; m++)
#pragma unroll
          for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) scores[m][n][i] = -scores[m][n][i];
      }
      const bool edge = key + KEYS > KEY_COUNT || (CAUSAL && key + KEYS - 1 > warp_row + LIMIT) || (WINDOWED && key < warp_end + FLOOR);
      if (edge) hide_keys(scores, row, column);
      add_weights(scores, sums, state, factor);
    }
    ws::copy_wait<2 * (STAGES - 1)>();
    __syncthreads();  // this tile's values have come; its keys have been read
    load_keys(tile + STAGES, stage);
    if (seen) multiply_values(sums, scores, value_rows + stage * VALUE_TILE);
    if (++stage == STAGES) stage = 0;
  }
  store_sums(o, sums, state, out_at, warp_row + lane / 4);
}
