//! Merge of the states of a row that a cluster shares, through distributed shared memory.
#include "warpsmith_cuda_meeting.h"
constexpr int SHARE = ws::ceil_div(PACKS, PARTS);
// One state out of those of all threads of a row.
template <class State>
__device__ __forceinline__ void merge_all(State& state) {
  __shared__ unsigned mine[sizeof(State) / 4];
  ws::near_merge<GROUP, PARTS>(state, mine);
  ws::meet_cluster();  // a block's memory must outlive what others read of it
}
