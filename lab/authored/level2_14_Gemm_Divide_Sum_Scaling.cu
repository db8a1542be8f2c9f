// warpsmith-unit: 1
// The sum over the outputs of a linear map is one dot product with the sum of its weight's rows: the weight is read
// once, in place of a matrix product.
// family: collapse   technique: algebraic-collapse
// tunable: BLOCK = 128 {64, 128, 256}
// tunable: SPLIT = 64 {32, 64, 128}
#define WORKSPACE_BYTES (4 * in0_shape[1] * ((in0_shape[0] + SPLIT - 1) / SPLIT + 1))
#include "task.h"
#include "warpsmith_cuda.h"

// in0: weight [outputs, inputs], in1: rows of inputs.
static constexpr int64_t OUTPUTS = in0_shape[0], N = in0_shape[1], ROWS = in1_shape[0];
static constexpr int64_t SPLITS = ws::ceil_div(OUTPUTS, SPLIT);
static constexpr int VEC = N % 4 == 0 ? 4 : 1;
static constexpr int64_t CHUNKS = N / VEC, TILES = ws::ceil_div(CHUNKS, BLOCK);
static constexpr float FACTOR = 1.5f / 2.0f;
using Chunk = ws::Pack<float, VEC>;

// Each block sums SPLIT rows of the weight at BLOCK chunks of columns.
__global__ void __launch_bounds__(BLOCK) split_sums(const float* weight, float* parts) {
  const int64_t tile = blockIdx.x % TILES, split = blockIdx.x / TILES, chunk = tile * BLOCK + threadIdx.x;
  if (chunk >= CHUNKS) return;
  const int64_t last = (split + 1) * SPLIT < OUTPUTS ? (split + 1) * SPLIT : OUTPUTS;
  Chunk sum{};
#pragma unroll 8
  for (int64_t o = split * SPLIT; o < last; o++) {
    const Chunk w = ws::load_pack<VEC>(weight + o * N + chunk * VEC);
#pragma unroll
    for (int j = 0; j < VEC; j++) sum.at[j] += w.at[j];
  }
  ws::store_pack<VEC>(parts + split * N + chunk * VEC, sum);
}

__global__ void __launch_bounds__(BLOCK) total_sums(const float* parts, float* totals) {
  const int64_t column = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (column >= N) return;
  float sum = 0.0f;
#pragma unroll 8
  for (int64_t s = 0; s < SPLITS; s++) sum += parts[s * N + column];
  totals[column] = sum;
}

__global__ void __launch_bounds__(BLOCK) dots(const float* x, const float* totals, float* y) {
  const float* row = x + blockIdx.x * N;
  float sum = 0.0f;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < CHUNKS; i += BLOCK) {
    const Chunk a = ws::load_pack<VEC>(row + i * VEC), b = ws::load_pack<VEC>(totals + i * VEC);
#pragma unroll
    for (int j = 0; j < VEC; j++) sum += a.at[j] * b.at[j];
  }
  sum = ws::block_sum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum * FACTOR;
}

static void unit(const in0_t* weight, const in1_t* x, out0_t* y, void* workspace, void* stream) {
  float *totals = (float*)workspace, *parts = totals + N;
  cudaStream_t on = (cudaStream_t)stream;
  split_sums<<<(unsigned)(SPLITS * TILES), BLOCK, 0, on>>>(weight, parts);
  total_sums<<<(unsigned)ws::ceil_div(N, BLOCK), BLOCK, 0, on>>>(parts, totals);
  dots<<<(unsigned)ROWS, BLOCK, 0, on>>>(x, totals, y);
}
