// warpsmith-unit: 1
// A row stays in the shared memory of one block, or of a cluster of blocks: each element is read once and written
// once. What does not fit is read again. While later parts of the row arrive, the earlier ones are summed (online
// softmax, https://arxiv.org/abs/1805.02867).
// family: softmax   technique: row resident in a cluster, one pass
// tunable: BLOCK = 1024 {256, 512, 1024}
// tunable: KEEP = 192 {48, 96, 192}
#include <cooperative_groups.h>
#include <cuda_pipeline_primitives.h>
#include "task.h"
#include "warpsmith_cuda.h"
namespace cg = cooperative_groups;

static constexpr int64_t ROWS = in0_shape[0], N = in0_shape[1];
static constexpr int VEC = N % 4 == 0 ? 4 : 1, STAGES = 4;
using Chunk = ws::Pack<float, VEC>;
static constexpr int64_t CHUNKS = N / VEC, ROOM = KEEP * 1024 / sizeof(Chunk);  // ROOM: chunks that a block can keep
static constexpr int CLUSTER = CHUNKS <= ROOM ? 1 : CHUNKS <= 2 * ROOM ? 2 : CHUNKS <= 4 * ROOM ? 4 : 8;
static constexpr int64_t PART = ws::ceil_div(CHUNKS, CLUSTER), KEPT = PART < ROOM ? PART : ROOM;
static constexpr int64_t STEP = ws::ceil_div(KEPT, STAGES);

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

__device__ __forceinline__ void merge_in_cluster(ws::OnlineSoftmax& total) {
  __shared__ float mine[2];
  cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) mine[0] = total.max, mine[1] = total.sum;
  cluster.sync();
  ws::OnlineSoftmax all;
#pragma unroll
  for (int r = 0; r < CLUSTER; r++) {
    const float* theirs = cluster.map_shared_rank(mine, r);
    all.merge({theirs[0], theirs[1]});
  }
  total = all;
}

__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(BLOCK) softmax(const float* x, float* y) {
  extern __shared__ __align__(16) unsigned char memory[];
  Chunk* kept = reinterpret_cast<Chunk*>(memory);
  const int64_t row = blockIdx.x / CLUSTER, first = blockIdx.x % CLUSTER * PART;
  const int64_t left = CHUNKS - first, count = left < 0 ? 0 : left < PART ? left : PART;
  const int64_t here = count < KEPT ? count : KEPT;
  const Chunk* from = reinterpret_cast<const Chunk*>(x + row * N) + first;
  Chunk* to = reinterpret_cast<Chunk*>(y + row * N) + first;
  // A thread reads only what it copied itself, so that no barrier is needed.
#pragma unroll
  for (int s = 0; s < STAGES; s++) {
    for (int64_t i = s * STEP + threadIdx.x; i < (s + 1) * STEP && i < here; i += BLOCK)
      __pipeline_memcpy_async(&kept[i], &from[i], sizeof(Chunk));
    __pipeline_commit();
  }
  ws::OnlineSoftmax total;
  for (int64_t i = here + threadIdx.x; i < count; i += BLOCK) add(total, ws::load_pack<VEC>(from[i].at));
#pragma unroll
  for (int s = 0; s < STAGES; s++) {
    __pipeline_wait_prior(STAGES - 1 - s);
    for (int64_t i = s * STEP + threadIdx.x; i < (s + 1) * STEP && i < here; i += BLOCK) add(total, kept[i]);
  }
  total.block_merge();
  if constexpr (CLUSTER > 1) {
    merge_in_cluster(total);
    cg::this_cluster().barrier_arrive();
  }
  const float scale = 1.0f / total.sum;
  auto write = [&](int64_t i, Chunk chunk) {
#pragma unroll
    for (int j = 0; j < VEC; j++) chunk.at[j] = expf(chunk.at[j] - total.max) * scale;
    ws::store_pack<VEC>(to[i].at, chunk);
  };
#pragma unroll
  for (int s = 0; s < STAGES; s++)
    for (int64_t i = s * STEP + threadIdx.x; i < (s + 1) * STEP && i < here; i += BLOCK) write(i, kept[i]);
  for (int64_t i = here + threadIdx.x; i < count; i += BLOCK) write(i, ws::load_pack<VEC>(from[i].at));
  // A block's shared memory must outlive what others read of it.
  if constexpr (CLUSTER > 1) cg::this_cluster().barrier_wait();
}

static void unit(const in0_t* x, out0_t* y, void*, void* stream) {
  constexpr int bytes = KEPT * sizeof(Chunk);
  cudaFuncSetAttribute(softmax, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  softmax<<<(unsigned)(ROWS * CLUSTER), BLOCK, bytes, (cudaStream_t)stream>>>(x, y);
}
