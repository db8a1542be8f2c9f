// warpsmith-unit: 1
// A row stays in the shared memory of one block, or of a cluster of blocks: each element is read once and written
// once. What does not fit is read again.
// family: norm   technique: row resident in a cluster, one pass
// tunable: BLOCK = 512 {256, 512, 1024}
// tunable: KEEP = 64 {32, 64, 128}
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

__device__ __forceinline__ float term(const Chunk& chunk) {
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < VEC; j++) sum += chunk.at[j] * chunk.at[j];
  return sum;
}

__device__ __forceinline__ float cluster_sum(float total) {
  __shared__ float mine;
  cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) mine = total;
  cluster.sync();
  total = 0.0f;
#pragma unroll
  for (int r = 0; r < CLUSTER; r++) total += *cluster.map_shared_rank(&mine, r);
  return total;
}

__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(BLOCK) normalise(const float* x, float* y) {
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
  float total = 0.0f;
  for (int64_t i = here + threadIdx.x; i < count; i += BLOCK) total += term(ws::load_pack<VEC>(from[i].at));
#pragma unroll
  for (int s = 0; s < STAGES; s++) {
    __pipeline_wait_prior(STAGES - 1 - s);
    for (int64_t i = s * STEP + threadIdx.x; i < (s + 1) * STEP && i < here; i += BLOCK) total += term(kept[i]);
  }
  total = ws::block_sum(total);
  if constexpr (CLUSTER > 1) {
    total = cluster_sum(total);
    cg::this_cluster().barrier_arrive();
  }
  const float norm = sqrtf(total);
  auto write = [&](int64_t i, Chunk chunk) {
#pragma unroll
    for (int j = 0; j < VEC; j++) chunk.at[j] /= norm;
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
  cudaFuncSetAttribute(normalise, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  normalise<<<(unsigned)(ROWS * CLUSTER), BLOCK, bytes, (cudaStream_t)stream>>>(x, y);
}
