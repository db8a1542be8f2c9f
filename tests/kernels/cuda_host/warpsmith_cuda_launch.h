// Programmatic dependent launches, of `warpsmith_cuda_launch.h`, for g++: one kernel after the other, as they are there.
#ifndef WARPSMITH_CUDA_LAUNCH_H
#define WARPSMITH_CUDA_LAUNCH_H

namespace ws {

inline void wait_for_earlier_launches() { }
inline void let_next_launch_begin() {}
template <class T>
struct ParameterOf {
  using type = T;
};
template <class... P>
inline void launch_dependent(
    void (*kernel)(P...), unsigned blocks, int threads, int shared, cudaStream_t, typename ParameterOf<P>::type... arguments) {
  host::launch(blocks, threads, shared, [&] { kernel(arguments...); });
}

}  // namespace ws
#endif
