// How blocks that run at once, a team, merge the states of a row. Include it from the unit itself.
//
// Each block posts its state in boxes: each word of it in 8 bytes with the number of the exchange, which are written and
// read as one, so that no fence is needed and whoever reads the right number reads the right word (the LL protocol of
// NCCL). Boxes are zero at first; exchanges are numbered from 1. Every second exchange may have the same boxes: who posts
// the third has read all of the second, whose senders had read all of the first.
#ifndef WARPSMITH_CUDA_MEETING_H
#define WARPSMITH_CUDA_MEETING_H
#include "warpsmith_cuda_states.h"
#if __CUDA_ARCH_LIST__ >= 900
#include <cooperative_groups.h>
#endif

namespace ws {

template <class State>
__device__ __forceinline__ void post(uint64_t* box, unsigned number, const State& state) {
  unsigned words[sizeof(State) / 4];
  memcpy(words, &state, sizeof words);
#pragma unroll
  for (int i = 0; i < (int)(sizeof(State) / 4); i++)
    *(volatile uint64_t*)(box + i) = (uint64_t)number << 32 | words[i];
}
// Waits until it is there.
template <class State>
__device__ __forceinline__ State posted(const uint64_t* box, unsigned number) {
  unsigned words[sizeof(State) / 4];
  for (bool there = false; !there;) {
    there = true;
#pragma unroll
    for (int i = 0; i < (int)(sizeof(State) / 4); i++) {
      const uint64_t seen = *(const volatile uint64_t*)(box + i);
      there &= (unsigned)(seen >> 32) == number;
      words[i] = (unsigned)seen;
    }
    if (!there) __nanosleep(20);
  }
  State state;
  memcpy(&state, words, sizeof state);
  return state;
}

// One state out of those of all threads of a team's blocks, merged in the order of their parts: the same bits for all.
// `boxes`: of this exchange, in the workspace, one for each part.
template <int THREADS, class State>
__device__ __forceinline__ void far_merge(State& state, uint64_t* boxes, int part, int parts, unsigned number) {
  constexpr int WORDS = sizeof(State) / 4;
  group_merge<THREADS>(state);
  if (parts == 1) return;
  if (threadIdx.x == 0) post(boxes + part * WORDS, number, state);
  state = State();
  for (int i = threadIdx.x; i < parts; i += THREADS) state.merge(posted<State>(boxes + i * WORDS, number));
  group_merge<THREADS>(state);
}

// The same for the PARTS blocks of a cluster, at most 32. `boxes`: in the shared memory of each; a block's own hold what
// the others posted, so that nobody waits for memory. A block posts nothing to itself: racecheck, which sees the accesses
// within a block, would call it a race.
template <int THREADS, int PARTS, class State>
__device__ __forceinline__ void near_merge(State& state, uint64_t* boxes, int part, unsigned number) {
  group_merge<THREADS>(state);
#if __CUDA_ARCH_LIST__ >= 900
  constexpr int WORDS = sizeof(State) / 4;
  const int lane = threadIdx.x % WARP;
  if (threadIdx.x < PARTS && threadIdx.x != part)
    post(cooperative_groups::this_cluster().map_shared_rank(boxes, threadIdx.x) + part * WORDS, number, state);
  if (lane >= PARTS)
    state = State();
  else if (lane != part)
    state = posted<State>(boxes + lane * WORDS, number);
  __syncwarp();
  warp_merge<WARP>(state);
#endif
}
// Before boxes of others are used, and after: their memory must outlive what is written there.
__device__ __forceinline__ void meet_cluster() {
#if __CUDA_ARCH_LIST__ >= 900
  cooperative_groups::this_cluster().sync();
#endif
}

}  // namespace ws
#endif
