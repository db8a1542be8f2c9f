//! Barriers in shared memory (mbarrier) and barriers of named groups of warps, sm_90.
#pragma once
#include "shared_address.cuh"

namespace ws::sm90 {

// A phase ends when `arrivals` arrivals have come and all bytes that were promised for it. One thread initialises.
__device__ __forceinline__ void mbarrier_init(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
// Initialised barriers become visible to the cluster and to the asynchronous proxy; a barrier of all threads follows.
__device__ __forceinline__ void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Arrives, and promises `bytes` that copies will bring.
__device__ __forceinline__ void mbarrier_arrive_expect(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void mbarrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Arrives at the barrier that lies at the same place in block `rank` of the cluster. Nothing is made visible beyond this block, which
// would cost a fence of the whole device at each call: who arrives has read by wgmma, and it has ended.
__device__ __forceinline__ void mbarrier_arrive_at(uint64_t* barrier, uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
}
// Waits for the end of the phase of this parity. A fresh barrier counts as if a phase of parity 1 had ended. What copies have brought is
// visible then, from whichever block of the cluster they were asked for; what threads of other blocks have stored is not.
__device__ __forceinline__ void mbarrier_wait(uint64_t* barrier, uint32_t parity) {
  const uint32_t address = shared_address(barrier);
  uint32_t done;
#ifdef WS_WATCHDOG
  uint32_t tries = 0;
#endif
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(address), "r"(parity)
        : "memory");
#ifdef WS_WATCHDOG
    if (++tries == WS_WATCHDOG) asm volatile("trap;");
#endif
  } while (done == 0);
}

// One thread of a whole warp, always the same; the compiler then knows that what it does is uniform.
__device__ __forceinline__ bool elect_one() {
  uint32_t elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(elected));
  return elected != 0;
}

// Named barriers 1 ... 15 of `threads` threads, whole warps.
__device__ __forceinline__ void named_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace ws::sm90
