// CUDA's words for g++, so that a unit's arithmetic and indices can be tested where there is no GPU. Blocks run one
// after the other, or at once as threads of the CPU where they are launched together; the threads of a block as fibers that
// change at barriers and shuffles only: what this cannot show is a missing barrier, and anything about speed.
#pragma once
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <atomic>
#include <thread>
#include <vector>
#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline
#define __constant__
#define __shared__ thread_local
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)

typedef void* cudaStream_t;
enum { cudaFuncAttributeMaxDynamicSharedMemorySize };
template <class F>
inline int cudaFuncSetAttribute(F*, int, int) { return 0; }
inline int cudaGetLastError() { return 0; }
struct alignas(16) uint4 { unsigned x, y, z, w; };
inline int cudaMemsetAsync(void* p, int byte, size_t bytes, cudaStream_t) { return memset(p, byte, bytes) == nullptr; }
inline void __threadfence_block() {}
struct alignas(8) uint2 { unsigned x, y; };
inline float __ldg(const float* p) { return *p; }
inline unsigned short __ldg(const unsigned short* p) { return *p; }
inline void __stcs(uint4* p, uint4 v) { *p = v; }
inline void __stcs(uint2* p, uint2 v) { *p = v; }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
// No product is fused into it.
inline float __fsub_rn(float a, float b) {
  const volatile float first = a;
  return first - b;
}

struct __half { _Float16 bits; };
inline float __half2float(__half x) { return (float)x.bits; }
inline __half __float2half_rn(float x) { return {(_Float16)x}; }
struct __nv_bfloat16 { uint16_t bits; };
inline float __bfloat162float(__nv_bfloat16 x) {
  const uint32_t bits = (uint32_t)x.bits << 16;
  float r;
  memcpy(&r, &bits, 4);
  return r;
}
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  if (x != x) return {0x7fff};
  return {(uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
struct __half2 { __half x, y; };
struct __nv_bfloat162 { __nv_bfloat16 x, y; };
// Each half computed in float32 and rounded once more, which is as if it were rounded once: a float32 has more than twice as many bits.
#define HALVES(NAME, OPERATOR)                                                                                               \
  inline __half2 NAME(__half2 a, __half2 b) {                                                                                \
    return {__float2half_rn(__half2float(a.x) OPERATOR __half2float(b.x)), __float2half_rn(__half2float(a.y) OPERATOR __half2float(b.y))}; \
  }                                                                                                                          \
  inline __nv_bfloat162 NAME(__nv_bfloat162 a, __nv_bfloat162 b) {                                                           \
    return {__float2bfloat16_rn(__bfloat162float(a.x) OPERATOR __bfloat162float(b.x)),                                       \
            __float2bfloat16_rn(__bfloat162float(a.y) OPERATOR __bfloat162float(b.y))};                                      \
  }
HALVES(__hadd2_rn, +)
HALVES(__hsub2_rn, -)
HALVES(__hmul2_rn, *)
#undef HALVES

namespace ws {
inline thread_local unsigned char memory[256 << 10] __attribute__((aligned(64)));  // dynamic shared memory
}
namespace host {
struct Index { unsigned x, y, z; };
enum State { RUNS, AT_WARP, AT_WARPGROUP, AT_BLOCK, AT_PHASE, DONE };
struct Fiber {
  ucontext_t context;  // where it begins; from its first switch on, `at`: that needs no system call
  jmp_buf at;
  bool begun;
  Index index;
  State state;
  const void* phase_of;  // AT_PHASE: the barrier in shared memory that it waits for
  char* stack = nullptr;
};
// Of the block that this thread of the CPU runs.
inline thread_local Fiber fibers[1024];
inline thread_local Fiber* now;
inline thread_local jmp_buf scheduler;
inline thread_local void (*body)(void*);
inline thread_local void* argument;
inline thread_local uint64_t slots[1024];
inline thread_local Index block_index, block_size, grid_size;
inline thread_local uint64_t blocks_run;  // the number of this block
inline std::atomic<uint64_t> last_block;

inline void wait(State state) {
  now->state = state;
  if (_setjmp(now->at) == 0) _longjmp(scheduler, 1);
}
inline void run() {
  body(argument);
  now->state = DONE;
  _longjmp(scheduler, 1);
}
inline void resume(Fiber& fiber) {
  now = &fiber;
  if (_setjmp(scheduler) != 0) return;
  if (fiber.begun) _longjmp(fiber.at, 1);
  fiber.begun = true;
  setcontext(&fiber.context);
}
// Releases the fibers [first, last) when all that are not done wait at `barrier`.
inline bool release(int first, int last, State barrier) {
  bool any = false;
  for (int i = first; i < last; i++) {
    if (fibers[i].state != DONE && fibers[i].state != barrier) return false;
    any |= fibers[i].state == barrier;
  }
  for (int i = first; i < last; i++)
    if (fibers[i].state == barrier) fibers[i].state = RUNS;
  return any;
}
inline void run_block(int threads) {
  for (int i = 0; i < threads; i++) {
    Fiber& f = fibers[i];
    if (f.stack == nullptr) f.stack = (char*)malloc(64 << 10);
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack;
    f.context.uc_stack.ss_size = 64 << 10;
    f.context.uc_link = nullptr;
    f.index = {(unsigned)i, 0, 0};
    f.state = RUNS;
    f.begun = false;
    makecontext(&f.context, run, 0);
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < threads; i++)
      if (fibers[i].state == RUNS) {
        resume(fibers[i]);
        moved = true;
      }
    for (int i = 0; i < threads; i += 32) moved |= release(i, i + 32 < threads ? i + 32 : threads, AT_WARP);
    for (int i = 0; i < threads; i += 128) moved |= release(i, i + 128 < threads ? i + 128 : threads, AT_WARPGROUP);
    moved |= release(0, threads, AT_BLOCK);
  }
  for (int i = 0; i < threads; i++)
    if (fibers[i].state != DONE) fprintf(stderr, "thread %d waits for others for ever\n", i), abort();
}
template <class F>
void run_one(unsigned block, unsigned blocks, int threads, const F& f) {
  body = [](void* p) { (*(const F*)p)(); };
  argument = (void*)&f;
  block_size = {(unsigned)threads, 1, 1};
  grid_size = {blocks, 1, 1};
  block_index = {block, 0, 0};
  blocks_run = ++last_block;
  memset(ws::memory, 0xcd, sizeof ws::memory);
  run_block(threads);
}
inline void check(int threads, int bytes) {
  if (threads > 1024) fprintf(stderr, "%d threads in a block\n", threads), abort();
  if (bytes > 232448) fprintf(stderr, "%d bytes of shared memory in a block\n", bytes), abort();
}
template <class F>
void launch(unsigned blocks, int threads, int bytes, const F& f) {
  check(threads, bytes);
  for (unsigned b = 0; b < blocks; b++) run_one(b, blocks, threads, f);
}
// All blocks at once, so that they may wait for each other.
template <class F>
void launch_together(unsigned blocks, int threads, int bytes, const F& f) {
  check(threads, bytes);
  std::vector<std::thread> running;
  for (unsigned b = 0; b < blocks; b++)
    running.emplace_back([=, &f] {
      run_one(b, blocks, threads, f);
      for (Fiber& fiber : fibers) free(fiber.stack);
    });
  for (std::thread& thread : running) thread.join();
}
}  // namespace host
#define threadIdx (host::now->index)
#define blockIdx (host::block_index)
#define blockDim (host::block_size)
#define gridDim (host::grid_size)
inline void __syncthreads() { host::wait(host::AT_BLOCK); }
inline int __syncthreads_or(int any) {
  host::slots[threadIdx.x] = any != 0;
  host::wait(host::AT_BLOCK);
  int found = 0;
  for (unsigned i = 0; i < host::block_size.x; i++) found |= (int)host::slots[i];
  host::wait(host::AT_BLOCK);
  return found;
}
inline void __syncwarp() { host::wait(host::AT_WARP); }
// Other threads of the block, and other blocks, go on.
inline void __nanosleep(unsigned) {
  static thread_local unsigned turns;
  host::wait(host::RUNS);
  if (++turns % 1024 == 0) sched_yield();
}
template <class T>
inline T host_exchange(T x, int from) {
  memcpy(&host::slots[threadIdx.x], &x, sizeof x);
  host::wait(host::AT_WARP);
  T y;
  memcpy(&y, &host::slots[from], sizeof y);
  host::wait(host::AT_WARP);
  return y;
}
template <class T>
inline T __shfl_xor_sync(unsigned, T x, int lanes) { return host_exchange(x, (int)(threadIdx.x ^ lanes)); }
inline int atomicAdd(int* p, int by) { return __atomic_fetch_add(p, by, __ATOMIC_RELAXED); }
inline bool __all_sync(unsigned, bool x) {
  for (int lanes = 1; lanes < 32; lanes *= 2) x = __shfl_xor_sync(0, x, lanes) && x;
  return x;
}
inline bool __any_sync(unsigned, bool x) { return !__all_sync(0, !x); }
inline unsigned __ballot_sync(unsigned, bool x) {
  unsigned bits = (unsigned)x << threadIdx.x % 32;
  for (int lanes = 1; lanes < 32; lanes *= 2) bits |= __shfl_xor_sync(0, bits, lanes);
  return bits;
}
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const uint64_t bytes = (uint64_t)high << 32 | low;
  unsigned result = 0;
  for (int i = 0; i < 4; i++) result |= (unsigned)(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  return result;
}
template <class T>
inline T __shfl_up_sync(unsigned, T x, int lanes) {
  const int lane = threadIdx.x % 32;
  return host_exchange(x, (int)threadIdx.x - (lane >= lanes ? lanes : 0));
}
template <class T>
inline T __shfl_sync(unsigned, T x, int lane) { return host_exchange(x, (int)(threadIdx.x / 32 * 32) + lane); }
