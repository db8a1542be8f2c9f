//! Tensor memory access (TMA): asynchronous copies of boxes of tensors between global and shared memory, sm_90. Loads fill
//! what lies outside a tensor with zeros, and still bring a box's whole bytes; stores leave it out.
#pragma once
#include <cuda.h>

#include "mbarrier.cuh"

namespace ws::sm90 {

__device__ __forceinline__ void tma_prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<uint64_t>(map)) : "memory");
}

// Policies of the L2 cache, as 64-bit values.
__device__ __forceinline__ uint64_t l2_evict_first() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ uint64_t l2_evict_last() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ uint64_t l2_evict_normal() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// One thread loads a box; `inner` is the coordinate of the contiguous dimension. The barrier gets the bytes.
__device__ __forceinline__ void tma_load_2d(uint32_t to, const CUtensorMap* map, uint64_t* barrier, int inner, int outer,
                                            uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(reinterpret_cast<uint64_t>(map)), "r"(shared_address(barrier)), "r"(inner), "r"(outer), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void tma_load_3d(uint32_t to, const CUtensorMap* map, uint64_t* barrier, int inner, int outer,
                                            int batch, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
      "l"(reinterpret_cast<uint64_t>(map)), "r"(shared_address(barrier)), "r"(inner), "r"(outer), "r"(batch), "l"(policy)
      : "memory");
}
// The same box goes to the same place in each block of the cluster whose bit of `blocks` is set, and its bytes to the
// barrier at the same place there.
__device__ __forceinline__ void tma_multicast_2d(uint32_t to, const CUtensorMap* map, uint64_t* barrier, int inner,
                                                 int outer, uint16_t blocks, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5, %6;" ::"r"(to),
      "l"(reinterpret_cast<uint64_t>(map)), "r"(shared_address(barrier)), "r"(inner), "r"(outer), "h"(blocks), "l"(policy)
      : "memory");
}

// What this thread stored to shared memory is visible to TMA and wgmma after a barrier of the threads that stored.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// One thread stores a box; it alone commits and waits.
__device__ __forceinline__ void tma_store_2d(const CUtensorMap* map, uint32_t from, int inner, int outer) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(
                   reinterpret_cast<uint64_t>(map)),
               "r"(from), "r"(inner), "r"(outer)
               : "memory");
}
__device__ __forceinline__ void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until all but the last LEFT groups have read shared memory: it may be written again.
template <int LEFT>
__device__ __forceinline__ void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory");
}

}  // namespace ws::sm90
