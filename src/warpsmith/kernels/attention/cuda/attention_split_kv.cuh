//! Split-KV attention for few queries (flash decoding, https://crfm.stanford.edu/2023/10/12/flashdecoding.html). SPLIT blocks share a head's keys and values;
//! LANES neighbouring lanes share a key, 16 bytes each, straight from global memory to registers, one step ahead; online softmax and sums in fp32;
//! `combine` adds up the splits. Keys that no query sees are not read. Values: names of operands, strides, the mask, the scale.

constexpr int V_KEY = vector_of($key_stride, DEPTH, PER_16), V_VALUE = vector_of($value_stride, WIDTH_OUT, PER_16);
constexpr int64_t PACKS_KEY = ws::ceil_div(DEPTH, V_KEY), PACKS_VALUE = ws::ceil_div(WIDTH_OUT, V_VALUE);
constexpr int LANES = least_power(PACKS_KEY > PACKS_VALUE ? PACKS_KEY : PACKS_VALUE) < ws::WARP ? least_power(PACKS_KEY > PACKS_VALUE ? PACKS_KEY : PACKS_VALUE) : ws::WARP;
constexpr int CHUNKS_KEY = (int)ws::ceil_div(PACKS_KEY, LANES), CHUNKS_VALUE = (int)ws::ceil_div(PACKS_VALUE, LANES);
constexpr int TEAMS = ws::WARP / LANES;                             // of lanes in a warp, each with keys of its own
constexpr int ROWS = least_power(ALL_ROWS) < 8 ? least_power(ALL_ROWS) : 8;  // of queries in a block
constexpr int64_t ROW_BLOCKS = ws::ceil_div(ALL_ROWS, (int64_t)ROWS);
constexpr int SCORES = ROWS * BATCH;                                // of a team's step …
constexpr int SLOTS = SCORES > LANES ? SCORES / LANES : 1;          // … of which a lane has so many in the end
constexpr int COPIES = SCORES > LANES ? 1 : LANES / SCORES;         // lanes that have the same one
constexpr int WARPS = BLOCK / ws::WARP, STEP = TEAMS * BATCH;
constexpr int64_t SHARE = ws::ceil_div(ws::ceil_div(END, (int64_t)SPLIT), (int64_t)(WARPS * STEP)) * (WARPS * STEP);  // keys of a split
static_assert((BATCH & (BATCH - 1)) == 0 && BLOCK % ws::WARP == 0, "powers of two");

// Adds up N numbers over LANES lanes, halving the numbers at each step: number i ends in lane i / SLOTS, slot i % SLOTS, in COPIES lanes.
template <int N, int STEP_LANES>
__device__ __forceinline__ void transpose_sum(float* s, int lane) {
  if constexpr (STEP_LANES > 0) {
    if constexpr (N > 1) {
      const bool upper = (lane & STEP_LANES) != 0;
#pragma unroll
      for (int i = 0; i < N / 2; i++) {
        const float sent = upper ? s[i] : s[i + N / 2];
        s[i] = (upper ? s[i + N / 2] : s[i]) + __shfl_xor_sync(ws::FULL, sent, STEP_LANES);
      }
      transpose_sum<N / 2, STEP_LANES / 2>(s, lane);
    } else {
      s[0] += __shfl_xor_sync(ws::FULL, s[0], STEP_LANES);
      transpose_sum<1, STEP_LANES / 2>(s, lane);
    }
  }
}

struct Step {
  ws::Pack<kv_t, V_KEY> key[BATCH][CHUNKS_KEY];
  ws::Pack<kv_t, V_VALUE> value[BATCH][CHUNKS_VALUE];
};

// One bit a key of the step: whether it is one of the split's, and any query of the block sees it.
__device__ __forceinline__ unsigned find_seen(const Operands& o, int64_t mask, int64_t first_row, int64_t key, int64_t end) {
  unsigned seen = 0;
#pragma unroll
  for (int j = 0; j < BATCH; j++) {
    bool any = false;
#pragma unroll
    for (int r = 0; r < (MASK_BY_ROW ? ROWS : 1); r++)
      any |= key + j * TEAMS < end && bias_of(o, mask, first_row + r, key + j * TEAMS) != -INFINITY;
    seen |= (unsigned)any << j;
  }
  return seen;
}

__device__ __forceinline__ void load_step(Step& step, const kv_t* keys, const kv_t* values, int64_t key, unsigned seen, int lane) {
#pragma unroll
  for (int j = 0; j < BATCH; j++) {
    const int64_t at = key + j * TEAMS;
#pragma unroll
    for (int c = 0; c < CHUNKS_KEY; c++) {
      const int64_t n = (int64_t)(c * LANES + lane) * V_KEY;
      if ((seen >> j & 1) && n < DEPTH) {
        step.key[j][c] = ws::load_pack<V_KEY>(keys + at * $key_stride[DIMS] + n * $key_stride[DIMS + 1]);
      } else {
#pragma unroll
        for (int v = 0; v < V_KEY; v++) step.key[j][c].at[v] = ws::store_as<kv_t>(0.0f);
      }
    }
#pragma unroll
    for (int c = 0; c < CHUNKS_VALUE; c++) {
      const int64_t n = (int64_t)(c * LANES + lane) * V_VALUE;
      if ((seen >> j & 1) && n < WIDTH_OUT) {
        step.value[j][c] = ws::load_pack<V_VALUE>(values + at * $value_stride[DIMS] + n * $value_stride[DIMS + 1]);
      } else {
#pragma unroll
        for (int v = 0; v < V_VALUE; v++) step.value[j][c].at[v] = ws::store_as<kv_t>(0.0f);
      }
    }
  }
}

// The online softmax of a team's keys: maxima (log2) and normalisers of all rows, and this lane's columns of the sums.
struct State {
  float max[ROWS], norm[ROWS], sum[ROWS][CHUNKS_VALUE][V_VALUE];
};

__device__ __forceinline__ void rescale(State& state, int r, float max) {
  const float factor = state.max[r] == -INFINITY ? 0.0f : exp2f(state.max[r] - max);
  state.max[r] = max;
  state.norm[r] *= factor;
#pragma unroll
  for (int c = 0; c < CHUNKS_VALUE; c++)
#pragma unroll
    for (int v = 0; v < V_VALUE; v++) state.sum[r][c][v] *= factor;
}

__device__ __forceinline__ void add_step(const Operands& o, State& state, const float (&query)[ROWS][CHUNKS_KEY][V_KEY], const Step& step,
                                         int64_t mask, int64_t first_row, int64_t key, int lane) {
  float s[SCORES];  // of key j and row r at j * ROWS + r
#pragma unroll
  for (int j = 0; j < BATCH; j++)
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      float dot = 0.0f;
#pragma unroll
      for (int c = 0; c < CHUNKS_KEY; c++)
#pragma unroll
        for (int v = 0; v < V_KEY; v++) dot += query[r][c][v] * ws::load_as(step.key[j][c].at[v]);
      s[j * ROWS + r] = dot;
    }
  transpose_sum<SCORES, LANES / 2>(s, lane);
#pragma unroll
  for (int t = 0; t < SLOTS; t++) {
    const int i = lane / COPIES * SLOTS + t;
    s[t] += bias_of(o, mask, first_row + i % ROWS, key + i / ROWS * TEAMS);
  }
  const int team = threadIdx.x % ws::WARP / LANES * LANES;
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    float score[BATCH], max = -INFINITY;
#pragma unroll
    for (int j = 0; j < BATCH; j++) {
      const int i = j * ROWS + r;
      score[j] = __shfl_sync(ws::FULL, s[i % SLOTS], team + i / SLOTS * COPIES);
      max = fmaxf(max, score[j]);
    }
    if (max > state.max[r]) rescale(state, r, max);
    const float base = state.max[r] == -INFINITY ? 0.0f : state.max[r];
#pragma unroll
    for (int j = 0; j < BATCH; j++) {
      const float weight = exp2f(score[j] - base);
      state.norm[r] += weight;
#pragma unroll
      for (int c = 0; c < CHUNKS_VALUE; c++)
#pragma unroll
        for (int v = 0; v < V_VALUE; v++) state.sum[r][c][v] += weight * ws::load_as(step.value[j][c].at[v]);
    }
  }
}

// Adds another state of the same columns.
__device__ __forceinline__ void merge_row(State& state, int r, float max, float norm) {
  if (max > state.max[r]) rescale(state, r, max);
  state.norm[r] += max == -INFINITY ? 0.0f : norm * exp2f(max - state.max[r]);
}

// The states of a warp's teams, in its first team.
__device__ __forceinline__ void merge_teams(State& state) {
#pragma unroll
  for (int lanes = LANES; lanes < ws::WARP; lanes *= 2)
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const float max = __shfl_xor_sync(ws::FULL, state.max[r], lanes), norm = __shfl_xor_sync(ws::FULL, state.norm[r], lanes);
      const float top = fmaxf(max, state.max[r]);
      const float mine = state.max[r] == -INFINITY ? 0.0f : exp2f(state.max[r] - top), other = max == -INFINITY ? 0.0f : exp2f(max - top);
      state.max[r] = top;
      state.norm[r] = state.norm[r] * mine + norm * other;
#pragma unroll
      for (int c = 0; c < CHUNKS_VALUE; c++)
#pragma unroll
        for (int v = 0; v < V_VALUE; v++)
          state.sum[r][c][v] = state.sum[r][c][v] * mine + __shfl_xor_sync(ws::FULL, state.sum[r][c][v], lanes) * other;
    }
}

// The states of a block's warps, in its first warp: at each step half of them hand theirs over in shared memory.
constexpr int COLUMNS = LANES * CHUNKS_VALUE * V_VALUE;
__device__ __forceinline__ void merge_warps(State& state) {
  __shared__ float sums[WARPS > 1 ? WARPS / 2 : 1][ROWS][COLUMNS], ends[WARPS > 1 ? WARPS / 2 : 1][ROWS][2];
  const int lane = threadIdx.x % ws::WARP, warp = threadIdx.x / ws::WARP;
#pragma unroll
  for (int half = WARPS / 2; half > 0; half /= 2) {
    if (warp >= half && warp < 2 * half && lane < LANES) {
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
#pragma unroll
        for (int c = 0; c < CHUNKS_VALUE; c++)
#pragma unroll
          for (int v = 0; v < V_VALUE; v++) sums[warp - half][r][(c * V_VALUE + v) * LANES + lane] = state.sum[r][c][v];
        if (lane == 0) ends[warp - half][r][0] = state.max[r], ends[warp - half][r][1] = state.norm[r];
      }
    }
    __syncthreads();
    if (warp < half && lane < LANES) {
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        const float max = ends[warp][r][0];
        merge_row(state, r, max, ends[warp][r][1]);
        const float factor = max == -INFINITY ? 0.0f : exp2f(max - state.max[r]);
#pragma unroll
        for (int c = 0; c < CHUNKS_VALUE; c++)
#pragma unroll
          for (int v = 0; v < V_VALUE; v++) state.sum[r][c][v] += sums[warp][r][(c * V_VALUE + v) * LANES + lane] * factor;
      }
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(BLOCK) attend(Operands o, float* partials) {
  const int lane = threadIdx.x % LANES, warp = threadIdx.x / ws::WARP, team = threadIdx.x % ws::WARP / LANES;
  const int64_t split = blockIdx.x % SPLIT, head = blockIdx.x / SPLIT % HEADS_KV, first_row = blockIdx.x / SPLIT / HEADS_KV * ROWS;
  const kv_t* const keys = o.$key + begin($key_stride, head);
  const kv_t* const values = o.$value + begin($value_stride, head);
  const $query_type* const queries = o.$query + begin(QUERY_STRIDE, head);
  const int64_t mask = begin(MASK_STRIDE, head);
  float query[ROWS][CHUNKS_KEY][V_KEY];
  State state;
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    const int64_t row = first_row + r;
    const $query_type* const at = queries + row / QUERIES * $query_stride[DIMS > 0 ? DIMS - 1 : 0] + row % QUERIES * $query_stride[DIMS];
#pragma unroll
    for (int c = 0; c < CHUNKS_KEY; c++)
#pragma unroll
      for (int v = 0; v < V_KEY; v++) {
        const int64_t n = (int64_t)(c * LANES + lane) * V_KEY + v;
        query[r][c][v] = row < ALL_ROWS && n < DEPTH ? ws::load_as(at[n * $query_stride[DIMS + 1]]) * ($scale * LOG2_E) : 0.0f;
      }
    state.max[r] = -INFINITY, state.norm[r] = 0.0f;
#pragma unroll
    for (int c = 0; c < CHUNKS_VALUE; c++)
#pragma unroll
      for (int v = 0; v < V_VALUE; v++) state.sum[r][c][v] = 0.0f;
  }
  const int64_t end = (split + 1) * SHARE < END ? (split + 1) * SHARE : END;
  int64_t key = split * SHARE + warp * STEP + team;  // this team's first of the step; its others are TEAMS apart
  Step now, next;
  unsigned seen = find_seen(o, mask, first_row, key, end), seen_next = find_seen(o, mask, first_row, key + WARPS * STEP, end);
  load_step(now, keys, values, key, seen, lane);
  // All lanes of a warp take as many steps: they exchange scores.
  for (int64_t first = split * SHARE + warp * STEP; first < end; first += WARPS * STEP, key += WARPS * STEP) {
    load_step(next, keys, values, key + WARPS * STEP, seen_next, lane);
    const bool any = __any_sync(ws::FULL, seen != 0);
    seen = seen_next, seen_next = find_seen(o, mask, first_row, key + 2 * WARPS * STEP, end);
    if (any) add_step(o, state, query, now, mask, first_row, key, lane);
    now = next;
  }
  merge_teams(state);
  merge_warps(state);
  if (threadIdx.x >= LANES) return;
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    const int64_t row = first_row + r;
    if (row >= ALL_ROWS) break;
    float* const partial = partials + (head * SPLIT + split) * PARTIAL;
#pragma unroll
    for (int c = 0; c < CHUNKS_VALUE; c++)
#pragma unroll
      for (int v = 0; v < V_VALUE; v++) {
        const int64_t n = (int64_t)(c * LANES + lane) * V_VALUE + v;
        if (n >= WIDTH_OUT) continue;
        if (SPLIT == 1) finish(o, head, row, n, state.sum[r][c][v], state.norm[r]);
        else partial[row * WIDTH_OUT + n] = state.sum[r][c][v];
      }
    if (SPLIT > 1 && lane == 0) partial[ALL_ROWS * WIDTH_OUT + 2 * row] = state.max[r], partial[ALL_ROWS * WIDTH_OUT + 2 * row + 1] = state.norm[r];
  }
}
