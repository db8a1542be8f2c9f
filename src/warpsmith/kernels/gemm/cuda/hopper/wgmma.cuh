//! Warpgroup matrix products (wgmma): m64nNk16 for N = 8 ... 256 in steps of 8, fp16 and bf16 factors from shared memory in
//! either order, fp32 accumulators in registers, sm_90a.
#pragma once
#include "wgmma_products.cuh"
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
static_assert(false, "requires: sm_90a");
#endif

namespace ws::sm90 {

// Orders accesses to accumulators and shared memory before the products that follow.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until all but the last LEFT groups are done: the shared memory they read is free again.
template <int LEFT>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
// Keeps the compiler from moving uses of accumulators over what stands here.
template <int COUNT>
__device__ __forceinline__ void pin_registers(float (&d)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; i++) asm volatile("" : "+f"(d[i])::"memory");
}

// A warpgroup gives registers back or takes them; each of its threads has COUNT then, a multiple of 8.
template <int COUNT>
__device__ __forceinline__ void registers_decrease() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT>
__device__ __forceinline__ void registers_increase() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

}  // namespace ws::sm90
