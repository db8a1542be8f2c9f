//! What kernels of attention share that keep scores and sums in registers (FlashAttention): sizes, the map of the scores, the online softmax, the store of the sums.
//! TILES_M: tiles of 16 rows of a warp. Values: types, sizes and strides, the scale, the score's chain.
typedef $element half_t;
constexpr int64_t SIZE(int64_t n) { return n > 0 ? n : 1; }  // to divide by
constexpr int64_t HEADS = $heads, ROW_COUNT = $rows, KEY_COUNT = $keys, DEPTH = WIDTH, WIDTH_OUT = $width_out;
constexpr bool CAUSAL = $causal, WINDOWED = $windowed, MAPPED = $mapped;
constexpr int64_t LIMIT = $limit, FLOOR = $floor;  // a row sees keys from row + FLOOR to row + LIMIT
constexpr int PADDED_DEPTH = (int)ws::ceil_div(DEPTH, 16) * 16, PADDED_OUT = (int)ws::ceil_div(WIDTH_OUT, 16) * 16;
constexpr int64_t ROW_BLOCKS = ws::ceil_div(ROW_COUNT, (int64_t)QUERIES);
// Blocks that run side by side are those of heads whose keys and values stay in the L2 cache together.
constexpr int64_t HEAD_BYTES = 2 * KEY_COUNT * (DEPTH + WIDTH_OUT) / $group, NEAR_BYTES = 16 << 20;
constexpr int64_t NEAR_HEADS = HEAD_BYTES * HEADS <= NEAR_BYTES ? HEADS : NEAR_BYTES / HEAD_BYTES > 1 ? NEAR_BYTES / HEAD_BYTES : 1;
constexpr float LOG2_E = 1.44269504f, LARGEST_LIFT = 64.0f;
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

typedef float Scores[TILES_M][KEYS / 8][4];
typedef float Sums[TILES_M][PADDED_OUT / 8][4];
struct Softmax {
  float max[TILES_M][2], norm[TILES_M][2];  // of rows g and g + 8 of a tile, g = lane / 4; norms of this lane's columns alone
};

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

// Scores of a warp's rows from `warp_row` on against keys from `key` on, as the softmax takes them: mapped, the largest first, hidden keys at minus infinity.
__device__ __forceinline__ void prepare_scores(const Operands& o, Scores& scores, int64_t* at, float sign, int warp_row, int key) {
  const int lane = threadIdx.x % 32, row = warp_row + lane / 4, column = key + lane % 4 * 2, warp_end = warp_row + 16 * TILES_M - 1;
  if (MAPPED) map_scores(o, scores, at, row, column);
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
}

// Turns scores into weights, 2^(factor * (score - maximum)); `rescale`: what the sums so far have to be multiplied by, for the new maximum. A NaN stays in its row.
// A score costs one fused multiply-add, factor * score - factor * maximum, of which the second product is rounded: by 2^-24 of itself, so
// that the largest score's weight is not quite 1. Where that product is large it could be anything from zero to infinity; there the maximum
// is subtracted first.
__device__ __forceinline__ void weigh(Scores& scores, float (&rescale)[TILES_M][2], Softmax& state, float factor) {
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
      rescale[m][half] = scale;
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
    }
}
__device__ __forceinline__ void scale_sums(Sums& sums, const float (&rescale)[TILES_M][2]) {
#pragma unroll
  for (int m = 0; m < TILES_M; m++)
#pragma unroll
    for (int n = 0; n < PADDED_OUT / 8; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) sums[m][n][i] *= rescale[m][i / 2];
}

// Two weights as a register of the next product's left factor; of two parts the second is what rounding the first leaves out.
constexpr int PARTS = WEIGHT_PARTS;
__device__ __forceinline__ void pack_parts(uint32_t (&parts)[PARTS], const float* pair) {
  parts[0] = ws::pack_$kind(pair[0], pair[1]);
  if constexpr (PARTS == 2) {
    const ws::Pack<float, 2> rounded = ws::unpack_$kind(parts[0]);
    parts[PARTS - 1] = ws::pack_$kind(pair[0] - rounded.at[0], pair[1] - rounded.at[1]);
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
