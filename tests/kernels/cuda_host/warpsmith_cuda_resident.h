// Blocks that run at once, of `warpsmith_cuda_resident.h`, for g++: on a GPU that has room for six of them.
#ifndef WARPSMITH_CUDA_RESIDENT_H
#define WARPSMITH_CUDA_RESIDENT_H
#include "warpsmith_cuda_launch.h"
#include "warpsmith_cuda_mma.h"

namespace ws {

struct Teams {
  int blocks, parts;
};
template <class... P>
inline Teams teams_of(void (*)(P...), int, int, int64_t most, int64_t pieces) {
  const int64_t teams = most < 6 ? most : 6, share = teams < 1 ? 1 : 6 / teams;
  const int64_t parts = share < pieces ? share : pieces < 1 ? 1 : pieces;
  return {(int)(teams * parts), (int)parts};
}
template <class... P>
inline int64_t clusters_of(void (*)(P...), int, int, int, int64_t rows) { return rows < 3 ? rows : 3; }
template <class... P>
inline void launch_together(
    void (*kernel)(P...), int blocks, int threads, int shared, cudaStream_t, typename ParameterOf<P>::type... arguments) {
  host::launch_together(blocks, threads, shared, [&] { kernel(arguments...); });
}
template <int BYTES, bool AGAIN = false>
inline void copy_hinted(void* shared, const void* global, bool) { copy_async<BYTES>(shared, global, true); }

inline void copy_wait_left(int left) { copy_wait(left); }

}  // namespace ws
#endif
