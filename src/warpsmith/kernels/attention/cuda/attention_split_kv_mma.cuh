//! Split-KV attention for few queries on tensor cores (flash decoding, https://crfm.stanford.edu/2023/10/12/flashdecoding.html): mma.sync m16n8k16, fp32 accumulate.
//! SPLIT blocks share a head's keys and values; a warp takes BATCH keys at once, all queries of the group together. Keys and values go from global memory straight
//! to the registers of fragments, 16 bytes a load: the order of features in a product is free, so a lane's 8 neighbouring features are parts of two steps.
//! The next keys are under way during the softmax and the second product, the next values during the next first product. Weights are rounded once.
//! What a mask hides from all queries is found beforehand, WINDOW keys at once, and not read. Values: names of operands, strides, the scale.

constexpr int ROW_TILES = ALL_ROWS > 8 ? 2 : 1, ROWS = 8 * ROW_TILES;  // of queries in a block
constexpr int64_t ROW_BLOCKS = ws::ceil_div(ALL_ROWS, (int64_t)ROWS);
constexpr int V_QUERY = vector_of($query_stride, DEPTH, PER_16), V_KEY = KeyRows::align(vector_of($key_stride, DEPTH, PER_16)), V_VALUE = ValueRows::align(vector_of($value_stride, WIDTH_OUT, PER_16));
constexpr int SPANS_KEY = (int)ws::ceil_div(DEPTH, 32), SPANS_VALUE = (int)ws::ceil_div(WIDTH_OUT, 64);  // 16 bytes a lane: 4 lanes a key, 8 lanes a value
constexpr int WARPS = BLOCK / ws::WARP, TILES = BATCH / 16;            // of 16 keys in a step
constexpr int64_t SHARE = ws::ceil_div(ws::ceil_div(END, (int64_t)SPLIT), (int64_t)32) * 32;  // keys of a split
constexpr int WINDOW = SHARE < 8192 ? (SHARE > 0 ? (int)SHARE : 32) : 8192;
constexpr bool SEEN_DECIDES = $mask_is_bool && !MASK_BY_ROW;          // the bits of seen keys say all that the mask does
static_assert((BATCH == 16 || BATCH == 32) && BLOCK % ws::WARP == 0 && (WARPS & (WARPS - 1)) == 0, "BATCH is 16 or 32, warps a power of two");

struct Keys {
  KeyRows::Raw at[TILES][2][SPANS_KEY];  // of key g + 8 n: features 32 c + 8 t and the next
  KeyRows::Scale scale[TILES][2];
};
struct Values {
  ValueRows::Raw at[TILES][4][SPANS_VALUE];  // of keys 2 t, 2 t + 1, 2 t + 8, 2 t + 9: columns 64 c + 8 g and the next
  ValueRows::Scale scale[TILES][4];
};

// `seen`: a bit a key of the step, not 0. A hidden key is not read: its lane reads the first that is seen instead.
__device__ __forceinline__ void load_keys(Keys& keys, const KeyRows& rows, int64_t from, unsigned seen, int g, int t) {
  const int first = __ffs(seen) - 1;
#pragma unroll
  for (int tile = 0; tile < TILES; tile++)
#pragma unroll
    for (int n = 0; n < 2; n++) {
      const int key = tile * 16 + n * 8 + g;
      const auto row = rows[from + (seen >> key & 1 ? key : first)];
      keys.scale[tile][n] = KeyRows::scale_of(row);
#pragma unroll
      for (int c = 0; c < SPANS_KEY; c++) keys.at[tile][n][c] = KeyRows::load<V_KEY>(row, c * 32 + t * 8, DEPTH, $key_stride[DIMS + 1]);
    }
}
__device__ __forceinline__ int value_key(int tile, int j, int t) { return tile * 16 + j / 2 * 8 + 2 * t + j % 2; }
__device__ __forceinline__ void load_values(Values& values, const ValueRows& rows, int64_t from, unsigned seen, int g, int t) {
  const int first = __ffs(seen) - 1;
#pragma unroll
  for (int tile = 0; tile < TILES; tile++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int key = value_key(tile, j, t);
      const auto row = rows[from + (seen >> key & 1 ? key : first)];
      values.scale[tile][j] = ValueRows::scale_of(row);
#pragma unroll
      for (int c = 0; c < SPANS_VALUE; c++) values.at[tile][j][c] = ValueRows::load<V_VALUE>(row, c * 64 + g * 8, WIDTH_OUT, $value_stride[DIMS + 1]);
    }
}
// In the place of hidden keys lies a value that another key has: a weight of 0 does not hide its infinities.
__device__ __forceinline__ void clear_hidden(Values& values, unsigned seen, int t) {
#pragma unroll
  for (int tile = 0; tile < TILES; tile++)
#pragma unroll
    for (int j = 0; j < 4; j++)
      if (!(seen >> value_key(tile, j, t) & 1))
#pragma unroll
        for (int c = 0; c < SPANS_VALUE; c++) values.at[tile][j][c] = ValueRows::Raw{};
}

// The online softmax: of queries g and g + 8 the maximum (log2) and this lane's part of the normaliser; of queries 2 t, 2 t + 1 (and 8 more) the
// sums of columns 64 c + 8 g + 2 i and the next.
struct State {
  float max[ROW_TILES], norm[ROW_TILES], sum[ROW_TILES][SPANS_VALUE][4][4];
};
typedef float Scores[TILES][2][4];  // of queries g and g + 8, keys 8 n + 2 t and the next

__device__ __forceinline__ void multiply_keys(Scores& scores, const Chunk (&query)[2][SPANS_KEY], const Keys& keys) {
#pragma unroll
  for (int tile = 0; tile < TILES; tile++)
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) scores[tile][n][i] = 0.0f;
#pragma unroll
  for (int c = 0; c < SPANS_KEY; c++)
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
      for (int n = 0; n < 2; n++) {
        const Chunk chunk = KeyRows::widen(keys.at[tile][n][c], keys.scale[tile][n]);
#pragma unroll
        for (int half = 0; half < 4; half += 2) {
          const uint32_t a[] = {query[0][c].at[half], query[1][c].at[half], query[0][c].at[half + 1], query[1][c].at[half + 1]};
          const uint32_t b[] = {chunk.at[half], chunk.at[half + 1]};
          ws::mma_$kind(scores[tile][n], a, b);
        }
      }
}

// Multiplies sums of queries 2 t and 2 t + 1 by factors that lanes of g have.
__device__ __forceinline__ void scale_sums(State& state, int r, float factor, int t) {
  const float even = __shfl_sync(ws::FULL, factor, 8 * t), odd = __shfl_sync(ws::FULL, factor, 8 * t + 4);
#pragma unroll
  for (int c = 0; c < SPANS_VALUE; c++)
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) state.sum[r][c][i][j] *= j % 2 ? odd : even;
}

// Scores become weights, in place; the sums are rescaled where a maximum has grown. `bias`: what is added, if bits do not say it.
__device__ __forceinline__ void weigh(Scores& scores, State& state, const Scores& bias, unsigned seen, int t) {
  const float scale = $scale * LOG2_E;
  float max[ROW_TILES];
  bool grown = false;
#pragma unroll
  for (int r = 0; r < ROW_TILES; r++) {
    max[r] = state.max[r];
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
      for (int n = 0; n < 2; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
          float& score = scores[tile][n][2 * r + i];
          if constexpr (SEEN_DECIDES) score = seen >> (tile * 16 + n * 8 + 2 * t + i) & 1 ? score * scale : -INFINITY;
          else score = bias[tile][n][2 * r + i] == -INFINITY ? -INFINITY : fmaf(score, scale, bias[tile][n][2 * r + i]);
          max[r] = fmaxf(max[r], score);
        }
    max[r] = fmaxf(max[r], __shfl_xor_sync(ws::FULL, max[r], 1));
    max[r] = fmaxf(max[r], __shfl_xor_sync(ws::FULL, max[r], 2));
    grown |= max[r] > state.max[r];
  }
  if (__any_sync(ws::FULL, grown)) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
      const float factor = state.max[r] == -INFINITY ? 0.0f : ws::exp2_approximate(state.max[r] - max[r]);
      state.max[r] = max[r], state.norm[r] *= factor;
      scale_sums(state, r, factor, t);
    }
  }
#pragma unroll
  for (int r = 0; r < ROW_TILES; r++) {
    const float base = state.max[r] == -INFINITY ? 0.0f : state.max[r];
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
      for (int n = 0; n < 2; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
          float& score = scores[tile][n][2 * r + i];
          score = ws::exp2_approximate(score - base);
          state.norm[r] += score;
        }
  }
}

// Keys are the products' depth: pairs of neighbouring keys meet in a register, and a first and a second feature of a pair go to rows g and g + 8.
__device__ __forceinline__ void multiply_values(State& state, const Scores& weights, const Values& values) {
#pragma unroll
  for (int tile = 0; tile < TILES; tile++) {
    uint32_t b[ROW_TILES][2];
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
      for (int n = 0; n < 2; n++) b[r][n] = ws::pack_$kind(weights[tile][n][2 * r], weights[tile][n][2 * r + 1]);
#pragma unroll
    for (int c = 0; c < SPANS_VALUE; c++) {
      Chunk chunks[4];
#pragma unroll
      for (int j = 0; j < 4; j++) chunks[j] = ValueRows::widen(values.at[tile][j][c], values.scale[tile][j]);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        uint32_t a[4];
#pragma unroll
        for (int n = 0; n < 2; n++) {
          const uint32_t even = chunks[2 * n].at[i], odd = chunks[2 * n + 1].at[i];
          a[2 * n] = __byte_perm(even, odd, 0x5410), a[2 * n + 1] = __byte_perm(even, odd, 0x7632);
        }
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++) ws::mma_$kind(state.sum[r][c][i], a, b[r]);
      }
    }
  }
}

// The states of a block's warps in its first warp: the maxima by all, then at each step half of the warps hand their sums over.
__device__ __forceinline__ void merge_warps(State& state, int g, int t) {
  __shared__ float ends[WARPS][ROWS][2], sums[WARPS > 1 ? WARPS / 2 : 1][ROW_TILES * SPANS_VALUE * 16][ws::WARP];
  const int lane = threadIdx.x % ws::WARP, warp = threadIdx.x / ws::WARP;
#pragma unroll
  for (int r = 0; r < ROW_TILES; r++) {
    state.norm[r] += __shfl_xor_sync(ws::FULL, state.norm[r], 1);
    state.norm[r] += __shfl_xor_sync(ws::FULL, state.norm[r], 2);
    if (t == 0) ends[warp][8 * r + g][0] = state.max[r], ends[warp][8 * r + g][1] = state.norm[r];
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < ROW_TILES; r++) {
    float max = -INFINITY, norm = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) max = fmaxf(max, ends[w][8 * r + g][0]);
    const float base = max == -INFINITY ? 0.0f : max;
#pragma unroll
    for (int w = 0; w < WARPS; w++) norm += ends[w][8 * r + g][1] * ws::exp2_approximate(ends[w][8 * r + g][0] - base);
    scale_sums(state, r, ws::exp2_approximate(state.max[r] - base), t);
    state.max[r] = max, state.norm[r] = norm;
  }
#pragma unroll
  for (int half = WARPS / 2; half > 0; half /= 2) {
#pragma unroll
    for (int i = 0; i < ROW_TILES * SPANS_VALUE * 16; i++)
      if (warp >= half && warp < 2 * half) sums[warp - half][i][lane] = (&state.sum[0][0][0][0])[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ROW_TILES * SPANS_VALUE * 16; i++)
      if (warp < half) (&state.sum[0][0][0][0])[i] += sums[warp][i][lane];
    __syncthreads();
  }
}

// Whether any query of the block sees a key; what lies outside is not read, and nothing is branched on, so that loads of several keys are under way at once.
__device__ __forceinline__ bool is_seen(const Operands& o, int64_t mask, int64_t first_row, int64_t key, int64_t end) {
  const int64_t inside = key < end ? key : end - 1;
  bool any = false;
#pragma unroll
  for (int r = 0; r < (MASK_BY_ROW ? ROWS : 1); r++) {
    const int64_t row = first_row + r < ALL_ROWS ? first_row + r : ALL_ROWS - 1;
    any |= bias_of(o, mask, row, inside) != -INFINITY;
  }
  return any & (key < end);
}
// A bit a key of the window. All threads of the block.
__device__ __forceinline__ void find_seen(unsigned* words, const Operands& o, int64_t mask, int64_t first_row, int64_t key, int64_t end) {
  constexpr int CHECKS = 4;  // of a thread at once
  __syncthreads();  // the last window's are read no more
  for (int first = threadIdx.x; first < WINDOW; first += CHECKS * BLOCK) {
    bool seen[CHECKS];
#pragma unroll
    for (int i = 0; i < CHECKS; i++) seen[i] = is_seen(o, mask, first_row, key + first + i * BLOCK, end);
#pragma unroll
    for (int i = 0; i < CHECKS; i++) {
      const unsigned word = __ballot_sync(ws::FULL, seen[i]);
      const int at = first + i * BLOCK;
      if (at < WINDOW && threadIdx.x % ws::WARP == 0) words[at / ws::WARP] = word;
    }
  }
  __syncthreads();
}
__device__ __forceinline__ unsigned seen_of(const unsigned* words, int step) {
  if constexpr (BATCH == 32) return words[step];
  else return words[step / 2] >> step % 2 * 16 & 0xffffu;
}

__global__ void __launch_bounds__(BLOCK) attend(Operands o, float* partials) {
  __shared__ unsigned words[WINDOW / 32];
  constexpr int STEPS = WINDOW / BATCH;
  constexpr unsigned ALL_SEEN = 0xffffffffu >> (32 - BATCH);
  const int warp = threadIdx.x / ws::WARP, g = threadIdx.x % ws::WARP / 4, t = threadIdx.x % 4;
  const int64_t split = blockIdx.x % SPLIT, head = blockIdx.x / SPLIT % HEADS_KV, first_row = blockIdx.x / SPLIT / HEADS_KV * ROWS;
  const KeyRows keys(o, head);
  const ValueRows values(o, head);
  const $query_type* const queries = o.$query + begin(QUERY_STRIDE, head);
  const int64_t mask = begin(MASK_STRIDE, head);
  Chunk query[2][SPANS_KEY];  // of rows g and g + 8
  State state;
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int64_t row = first_row + 8 * r + g;
    const $query_type* const at = queries + row / QUERIES * $query_stride[DIMS > 0 ? DIMS - 1 : 0] + row % QUERIES * $query_stride[DIMS];
#pragma unroll
    for (int c = 0; c < SPANS_KEY; c++)
      query[r][c] = r < ROW_TILES && row < ALL_ROWS ? load_chunk<V_QUERY>(at, c * 32 + t * 8, DEPTH, $query_stride[DIMS + 1]) : Chunk{};
  }
#pragma unroll
  for (int r = 0; r < ROW_TILES; r++) {
    state.max[r] = -INFINITY, state.norm[r] = 0.0f;
#pragma unroll
    for (int i = 0; i < SPANS_VALUE * 16; i++) (&state.sum[r][0][0][0])[i] = 0.0f;
  }
  const int64_t end = (split + 1) * SHARE < END ? (split + 1) * SHARE : END;
  for (int64_t from = split * SHARE; from < end; from += WINDOW) {
    find_seen(words, o, mask, first_row, from, end);
    // This warp's next step that has a key to read; STEPS: none.
    const auto find_step = [&](int step) {
      while (step < STEPS && seen_of(words, step) == 0) step += WARPS;
      return step;
    };
    int step = find_step(warp);
    if (step >= STEPS) continue;
    unsigned seen = seen_of(words, step);
    Keys k;
    Values v;
    load_keys(k, keys, from + step * BATCH, seen, g, t);
    load_values(v, values, from + step * BATCH, seen, g, t);
    while (true) {
      const int next = find_step(step + WARPS);
      const bool more = next < STEPS;
      const unsigned seen_next = more ? seen_of(words, next) : 0;
      Scores scores, bias;
      if constexpr (!SEEN_DECIDES) {
#pragma unroll
        for (int i = 0; i < TILES * 2 * 2 * ROW_TILES; i++) {
          const int tile = i / (4 * ROW_TILES), n = i / (2 * ROW_TILES) % 2, j = i % (2 * ROW_TILES), at = tile * 16 + n * 8 + 2 * t + j % 2;
          bias[tile][n][j] = seen >> at & 1 ? bias_of(o, mask, first_row + g + j / 2 * 8, from + step * BATCH + at) : -INFINITY;
        }
      }
      multiply_keys(scores, query, k);
      if (more) load_keys(k, keys, from + next * BATCH, seen_next, g, t);
      weigh(scores, state, bias, seen, t);
      if (seen != ALL_SEEN) clear_hidden(v, seen, t);
      multiply_values(state, scores, v);
      if (!more) break;
      load_values(v, values, from + next * BATCH, seen_next, g, t);
      step = next, seen = seen_next;
    }
  }
  merge_warps(state, g, t);
  if (warp != 0) return;
  float* const partial = partials + (head * SPLIT + split) * PARTIAL;
#pragma unroll
  for (int r = 0; r < ROW_TILES; r++) {
    const float norms[] = {__shfl_sync(ws::FULL, state.norm[r], 8 * t), __shfl_sync(ws::FULL, state.norm[r], 8 * t + 4)};
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int64_t row = first_row + 8 * r + 2 * t + j % 2;
      if (row >= ALL_ROWS) continue;
#pragma unroll
      for (int c = 0; c < SPANS_VALUE; c++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
          const int64_t n = c * 64 + 8 * g + 2 * i + j / 2;
          if (n >= WIDTH_OUT) continue;
          if (SPLIT == 1) finish(o, head, row, n, state.sum[r][c][i][j], norms[j % 2]);
          else partial[row * WIDTH_OUT + n] = state.sum[r][c][i][j];
        }
    }
    const int64_t row = first_row + 8 * r + g;
    if (SPLIT > 1 && t == 0 && row < ALL_ROWS) partial[ALL_ROWS * WIDTH_OUT + 2 * row] = state.max[r], partial[ALL_ROWS * WIDTH_OUT + 2 * row + 1] = state.norm[r];
  }
}
