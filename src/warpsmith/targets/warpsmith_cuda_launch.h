// Programmatic dependent launch: the blocks of a kernel come to the GPU while the kernel before it on the stream runs out, and wait
// there, so that the gap between two kernels is gone. Every kernel that is launched so calls wait_for_earlier_launches()
// before it reads or writes global memory. On GPUs before sm_90 it is a launch like any other.
//
// Source: CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization"; PTX ISA, "griddepcontrol".
#ifndef WARPSMITH_CUDA_LAUNCH_H
#define WARPSMITH_CUDA_LAUNCH_H

namespace ws {

// What earlier launches on the stream wrote is visible afterwards: all of them are done.
__device__ __forceinline__ void wait_for_earlier_launches() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Once every block has called it, or ended, blocks of the next kernel may take what room is left.
__device__ __forceinline__ void let_next_launch_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#ifdef __CUDA_ARCH_LIST__
constexpr int BUILT_FOR[] = {__CUDA_ARCH_LIST__};  // 900: sm_90
constexpr bool DEPENDENT_LAUNCHES = BUILT_FOR[0] >= 900;
#else
constexpr bool DEPENDENT_LAUNCHES = false;
#endif

template <class T>
struct ParameterOf {
  using type = T;
};
template <class... P>
inline void launch_dependent(
    void (*kernel)(P...), unsigned blocks, int threads, int shared, cudaStream_t on, typename ParameterOf<P>::type... arguments) {
  void* list[] = {(void*)&arguments...};
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks), config.blockDim = dim3(threads), config.dynamicSmemBytes = (size_t)shared, config.stream = on;
  config.attrs = &overlap, config.numAttrs = DEPENDENT_LAUNCHES ? 1 : 0;
  cudaLaunchKernelExC(&config, (const void*)kernel, list);
}

}  // namespace ws
#endif
