//! Programmatic dependent launch, sm_90: a launch may begin while the one before it ends. Without the launch attribute, and on
//! older GPUs, both functions do nothing.
#pragma once

namespace ws::sm90 {

// What earlier launches wrote is visible afterwards.
__device__ __forceinline__ void wait_for_earlier_launches() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void let_next_launch_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace ws::sm90
