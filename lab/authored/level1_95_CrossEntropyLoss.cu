// warpsmith-unit: 1
// A block a row reads it once (online softmax, https://arxiv.org/abs/1805.02867) and leaves its loss; one block sums
// the losses in a fixed order. The logarithms of the probabilities are never written.
// family: loss   technique: one pass over the classes, losses summed in order
// tunable: BLOCK = 256 {128, 256, 512}
#define WORKSPACE_BYTES (4 * in0_shape[0])
#include "task.h"
#include "warpsmith_cuda.h"

static constexpr int64_t ROWS = in0_shape[0], N = in0_shape[1], IGNORED = -100;
static constexpr int VEC = N % 4 == 0 ? 4 : 1, UNROLL = 4, LAST = 1024;
using Chunk = ws::Pack<float, VEC>;

__device__ __forceinline__ void add(ws::OnlineSoftmax& total, const Chunk& chunk) {
  float top = chunk.at[0];
#pragma unroll
  for (int j = 1; j < VEC; j++) top = ws::Max::of(top, chunk.at[j]);
  if (!(top <= total.max)) {
    top = ws::Max::of(total.max, top);
    total.sum *= expf(total.max - top);
    total.max = top;
  }
  if (total.max == -INFINITY) return;  // nothing but minus infinity so far
#pragma unroll
  for (int j = 0; j < VEC; j++) total.sum += expf(chunk.at[j] - total.max);
}

__global__ void __launch_bounds__(BLOCK) row_losses(const float* x, const int64_t* targets, float* losses) {
  x += blockIdx.x * N;
  const Chunk* chunks = reinterpret_cast<const Chunk*>(x);
  ws::OnlineSoftmax total;
  for (int64_t start = threadIdx.x; start < N / VEC; start += BLOCK * UNROLL) {
    Chunk v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
      if (start + u * BLOCK < N / VEC) v[u] = ws::load_pack<VEC>(chunks[start + u * BLOCK].at);
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
      if (start + u * BLOCK < N / VEC) add(total, v[u]);
  }
  total.block_merge();
  if (threadIdx.x != 0) return;
  const int64_t target = targets[blockIdx.x];
  // As the reference groups it: (x - max) - log(sum). A target that is no class has no loss.
  const bool valid = target >= 0 && target < N;
  const float score = valid ? x[target] : NAN;
  losses[blockIdx.x] = target == IGNORED ? 0.0f : logf(total.sum) - (score - total.max);
}

__global__ void __launch_bounds__(LAST) mean_loss(const float* losses, const int64_t* targets, float* y) {
  float sum = 0.0f, counted = 0.0f;
  for (int64_t r = threadIdx.x; r < ROWS; r += LAST) {
    sum += losses[r];
    counted += targets[r] != IGNORED;
  }
  sum = ws::block_sum(sum);
  counted = ws::block_sum(counted);
  if (threadIdx.x == 0) *y = sum / counted;
}

static void unit(const in0_t* x, const in1_t* targets, out0_t* y, void* workspace, void* stream) {
  float* losses = (float*)workspace;
  cudaStream_t on = (cudaStream_t)stream;
  row_losses<<<(unsigned)ROWS, BLOCK, 0, on>>>(x, targets, losses);
  mean_loss<<<1, LAST, 0, on>>>(losses, targets, y);
}
