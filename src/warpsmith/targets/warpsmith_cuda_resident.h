// Blocks that are on the GPU all at once, so that they may wait for each other, and copies that spare the L2 cache. Include
// it from the unit itself.
#ifndef WARPSMITH_CUDA_RESIDENT_H
#define WARPSMITH_CUDA_RESIDENT_H
#include "warpsmith_cuda_launch.h"
#include "warpsmith_cuda_mma.h"

namespace ws {

constexpr int MOST_RESIDENT = 4096;  // blocks that are used at most
struct Teams {
  int blocks, parts;  // in all; of a team
};
// As many blocks of a kernel as fit on the GPU, in `most` teams or fewer, of at most `pieces` blocks.
template <class... P>
inline Teams teams_of(void (*kernel)(P...), int threads, int shared, int64_t most, int64_t pieces) {
  int device = 0, processors = 0, each = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, (const void*)kernel, threads, (size_t)shared);
  int64_t fitting = (int64_t)processors * each;
  fitting = fitting < 1 ? 1 : fitting > MOST_RESIDENT ? MOST_RESIDENT : fitting;
  const int64_t teams = most < fitting ? most : fitting, share = teams < 1 ? 1 : fitting / teams;
  const int64_t parts = share < pieces ? share : pieces < 1 ? 1 : pieces;
  return {(int)(teams * parts), (int)parts};
}

// As many clusters of PARTS blocks as fit on the GPU at once, at most as many as there are rows.
template <class... P>
inline int64_t clusters_of(void (*kernel)(P...), int parts, int threads, int shared, int64_t rows) {
  int device = 0, processors = 0, each = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, (const void*)kernel, threads, (size_t)shared);
  int clusters = processors * each / parts;
  if (parts > 1) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(parts), config.blockDim = dim3(threads), config.dynamicSmemBytes = (size_t)shared;
    cudaOccupancyMaxActiveClusters(&clusters, (const void*)kernel, &config);
  }
  return clusters < 1 ? (rows < 1 ? rows : 1) : clusters < rows ? clusters : rows;
}

// A cooperative launch: all blocks run at once, or it fails.
template <class... P>
inline void launch_together(
    void (*kernel)(P...), int blocks, int threads, int shared, cudaStream_t on, typename ParameterOf<P>::type... arguments) {
  void* list[] = {(void*)&arguments...};
  cudaLaunchCooperativeKernel((const void*)kernel, dim3(blocks), dim3(threads), list, (size_t)shared, on);
}

// To shared memory as `copy_async`; what only passes leaves the L2 cache first, what is read AGAIN leaves it last. Of less than 16 bytes nothing is said: ptxas 13.0
// writes instructions with such a hint that the GPU calls illegal.
template <int BYTES, bool AGAIN = false>
__device__ __forceinline__ void copy_hinted(void* shared, const void* global, bool passing) {
  if constexpr (BYTES < 16) {
    copy_async<BYTES>(shared, global, true);
  } else {
    const uint32_t to = (uint32_t)__cvta_generic_to_shared(shared);
    uint64_t first, normal;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first));
    if constexpr (AGAIN)
      asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(normal));
    else
      asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(normal));
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;"
                 :: "r"(to), "l"(__cvta_generic_to_global(global)), "l"(passing ? first : normal) : "memory");
  }
}

// Until at most `left` of this thread's groups are under way, and no more than 15.
__device__ __forceinline__ void copy_wait_left(int left) {
  switch (left) {
#define WS_LEFT(n) case n: copy_wait<n>(); break;
    WS_LEFT(0) WS_LEFT(1) WS_LEFT(2) WS_LEFT(3) WS_LEFT(4) WS_LEFT(5) WS_LEFT(6) WS_LEFT(7)
    WS_LEFT(8) WS_LEFT(9) WS_LEFT(10) WS_LEFT(11) WS_LEFT(12) WS_LEFT(13) WS_LEFT(14)
#undef WS_LEFT
    default: copy_wait<15>();
  }
}

}  // namespace ws
#endif
