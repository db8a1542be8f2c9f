//! Sizes, masks, stores and the second kernel of split-KV attention: `combine` adds up what the blocks of a head left in the workspace. Values: names of
//! operands, strides, the mask.

typedef $key_type kv_t;
constexpr int DIMS = $dims;  // of heads
constexpr int64_t HEADS_KV = $heads, GROUP = $group, QUERIES = $out_shape[DIMS], KEYS = $key_shape[DIMS];
constexpr int64_t DEPTH = $key_shape[DIMS + 1], WIDTH_OUT = $out_shape[DIMS + 1], ALL_ROWS = GROUP * QUERIES;
constexpr int64_t WIDTH = DEPTH;
$strides
constexpr int64_t END_CAUSAL = QUERIES + ($limit) < 0 ? 0 : QUERIES + ($limit);
constexpr int64_t END = $causal && END_CAUSAL < KEYS ? END_CAUSAL : KEYS;  // keys from here on are hidden from all queries

constexpr int least_power(int64_t n) {
  int power = 1;
  while (power < n) power *= 2;
  return power;
}
constexpr int64_t PARTIAL = ALL_ROWS * (WIDTH_OUT + 2);             // floats of a split of a head: sums, maxima, normalisers
constexpr float LOG2_E = 1.44269504f;

// Neighbours of a row that a lane may load at once.
constexpr int vector_of(const int64_t* stride, int64_t width, int most) {
  int v = most;
  for (int d = 0; d <= DIMS; d++)
    while (stride[d] % v != 0) v /= 2;
  while (width % v != 0) v /= 2;
  return stride[DIMS + 1] == 1 ? v : 1;
}
constexpr int PER_16 = 16 / sizeof(kv_t);

// Where a head's elements begin; `stride` of its dimensions.
__device__ __forceinline__ int64_t begin(const int64_t* stride, int64_t head) {
  int64_t offset = 0;
  for (int d = DIMS - 1; d >= 0; head /= $key_shape[d--]) offset += head % $key_shape[d] * stride[d];
  return offset;
}

// What is added to a score, in units of log2: minus infinity for a hidden key.
__device__ __forceinline__ float bias_of(const Operands& o, int64_t mask, int64_t row, int64_t key) {
  if (row >= ALL_ROWS || key >= END) return -INFINITY;
  if ($causal && key > row % QUERIES + ($limit)) return -INFINITY;
  $bias
}

// One number of the result; a row that sees no key is 0, as the library's.
__device__ __forceinline__ void finish(const Operands& o, int64_t head, int64_t row, int64_t column, float sum, float norm) {
  int64_t at[DIMS + 2] = {};
  for (int d = DIMS - 1; d >= 0; head /= $key_shape[d--]) at[d] = head % $key_shape[d];
  if (DIMS > 0) at[DIMS > 0 ? DIMS - 1 : 0] = at[DIMS > 0 ? DIMS - 1 : 0] * GROUP + row / QUERIES;
  at[DIMS] = row % QUERIES, at[DIMS + 1] = column;
  ws::Pack<float, 1> value;
  value.at[0] = norm == 0.0f ? 0.0f : sum / norm;
  epilogue<1>(o, value, at);
}

// The splits of a row added up: a warp a row of a head.
__global__ void __launch_bounds__(128) combine(Operands o, const float* partials) {
  const int64_t item = (int64_t)blockIdx.x * 4 + threadIdx.x / ws::WARP, head = item / ALL_ROWS, row = item % ALL_ROWS;
  if (head >= HEADS_KV) return;
  const float* const all = partials + head * SPLIT * PARTIAL;
  const float* const ends = all + ALL_ROWS * WIDTH_OUT + 2 * row;
  float max = -INFINITY, norm = 0.0f;
  for (int s = 0; s < SPLIT; s++) max = fmaxf(max, ends[s * PARTIAL]);
  const float base = max == -INFINITY ? 0.0f : max;
  for (int s = 0; s < SPLIT; s++) norm += ends[s * PARTIAL + 1] * exp2f(ends[s * PARTIAL] - base);
  for (int64_t n = threadIdx.x % ws::WARP; n < WIDTH_OUT; n += ws::WARP) {
    float sum = 0.0f;
#pragma unroll 4
    for (int s = 0; s < SPLIT; s++) sum += all[s * PARTIAL + row * WIDTH_OUT + n] * exp2f(ends[s * PARTIAL] - base);
    finish(o, head, row, n, sum, norm);
  }
}
