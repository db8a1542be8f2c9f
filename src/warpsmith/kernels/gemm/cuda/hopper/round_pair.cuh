//! Pairs of floats rounded to nearest fp16 or bf16, sm_80.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace ws::sm90 {

// `low` is in the lower half.
__device__ __forceinline__ uint32_t round_pair(float low, float high, __half) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
__device__ __forceinline__ uint32_t round_pair(float low, float high, __nv_bfloat16) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

}  // namespace ws::sm90
