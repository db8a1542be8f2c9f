// How blocks that run at once, a team, merge the states of a row. Include it from the unit itself.
//
// Each block posts its state in a box. Every second exchange may have the same boxes: who posts the third has met all others
// in the second, after which these read nothing of the first.
#ifndef WARPSMITH_CUDA_MEETING_H
#define WARPSMITH_CUDA_MEETING_H
#include "warpsmith_cuda_states.h"
#if __CUDA_ARCH_LIST__ >= 900
#include <cooperative_groups.h>
#endif

namespace ws {

// In the workspace: each word in 8 bytes with the number of the exchange, which are written and read as one, so that no
// fence is needed and whoever reads the right number reads the right word (the LL protocol of NCCL). Boxes are zero at
// first; exchanges are numbered from 1.
template <class State>
__device__ __forceinline__ void post(uint64_t* box, unsigned number, const State& state) {
  unsigned words[sizeof(State) / 4];
  memcpy(words, &state, sizeof words);
#pragma unroll
  for (int i = 0; i < (int)(sizeof(State) / 4); i++)
    *(volatile uint64_t*)(box + i) = (uint64_t)number << 32 | words[i];
}
// Waits until it is there. `seen`: what its words were before, by then perhaps already right.
template <class State, int WORDS>
__device__ __forceinline__ State posted(const uint64_t* box, unsigned number, const uint64_t (&seen)[WORDS]) {
  static_assert(WORDS == sizeof(State) / 4, "as many words as the state has");
  unsigned words[WORDS];
  bool there = true;
#pragma unroll
  for (int i = 0; i < WORDS; i++) {
    there &= (unsigned)(seen[i] >> 32) == number;
    words[i] = (unsigned)seen[i];
  }
  while (!there) {
    there = true;
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
      const uint64_t now = *(const volatile uint64_t*)(box + i);
      there &= (unsigned)(now >> 32) == number;
      words[i] = (unsigned)now;
    }
    if (!there) __nanosleep(20);
  }
  State state;
  memcpy(&state, words, sizeof state);
  return state;
}
template <class State>
__device__ __forceinline__ State posted(const uint64_t* box, unsigned number) {
  const uint64_t nothing[sizeof(State) / 4] = {};  // exchanges are numbered from 1
  return posted<State>(box, number, nothing);
}

// One state out of those of all threads of a team's blocks, merged in the order of their parts: the same bits for all.
// `boxes`: of this exchange, in the workspace, one for each part. What is posted may be gathered much later.
template <int THREADS, class State>
__device__ __forceinline__ void post_far(State state, uint64_t* boxes, int part, unsigned number) {
  group_merge<THREADS>(state);
  if (threadIdx.x == 0) post(boxes + part * (sizeof(State) / 4), number, state);
}
template <int THREADS, class State>
__device__ __forceinline__ State gather_far(const uint64_t* boxes, int parts, unsigned number) {
  State state;
  for (int i = threadIdx.x; i < parts; i += THREADS) state.merge(posted<State>(boxes + i * (sizeof(State) / 4), number));
  group_merge<THREADS>(state);
  return state;
}

// The blocks of a cluster wait for each other: each arrives, and waits for the others when it must. Each then sees what the
// others wrote to their own shared memory before they arrived: no more is promised, since a full barrier waits until whatever
// a block has written to global memory is out, too.
__device__ __forceinline__ void arrive_at_cluster() {
#if __CUDA_ARCH_LIST__ >= 900
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1208
  asm volatile("fence.release.sync_restrict::shared::cta.cluster;\nbarrier.cluster.arrive.relaxed;" ::: "memory");
#else
  cooperative_groups::this_cluster().barrier_arrive();
#endif
#endif
}
__device__ __forceinline__ void wait_for_cluster() {
#if __CUDA_ARCH_LIST__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#else
  __syncthreads();  // of one block
#endif
}
__device__ __forceinline__ void meet_cluster() {
  arrive_at_cluster();
  wait_for_cluster();
}
// As above for the PARTS blocks of a cluster, a power of two up to 32, which read each other's shared memory. `mine`: this
// block's box, at the same place in each, that every second exchange may have again. Between post and gather all threads
// arrive and wait, once for all states.
template <int THREADS, class State>
__device__ __forceinline__ void post_near(State state, unsigned* mine) {
  group_merge<THREADS>(state);
  if (threadIdx.x == 0) save(mine, 1, state);
}
template <int PARTS, class State>
__device__ __forceinline__ State gather_near(unsigned* mine) {
#if __CUDA_ARCH_LIST__ >= 900
  State state = load_state<State>(cooperative_groups::this_cluster().map_shared_rank(mine, threadIdx.x % PARTS), 1);
  warp_merge<PARTS>(state);
  return state;
#else
  return load_state<State>(mine, 1);
#endif
}
template <int THREADS, int PARTS, class State>
__device__ __forceinline__ void near_merge(State& state, unsigned* mine) {
  post_near<THREADS>(state, mine);
  meet_cluster();
  state = gather_near<PARTS, State>(mine);
}
// For units of before, which are archived.
template <int THREADS, class State>
__device__ __forceinline__ void far_merge(State& state, uint64_t* boxes, int part, int parts, unsigned number) {
  post_far<THREADS>(state, boxes, part, number);
  state = gather_far<THREADS, State>(boxes, parts, number);
}
// With more room and numbers: their blocks do not meet at the end.
template <int THREADS, int PARTS, class State, class Word, class... Numbers>
__device__ __forceinline__ void near_merge(State& state, Word* mine, int, Numbers...) {
  near_merge<THREADS, PARTS>(state, (unsigned*)mine);
  meet_cluster();
}

}  // namespace ws
#endif
