// The Hopper kernels' hardware for g++: clusters of blocks as fibers, mbarriers, TMA, wgmma, stmatrix, DSMEM, cp.async and
// mma.sync. The order of fibers and of asynchronous copies is drawn from a seed. A copy spoils its destination when it is
// asked for and brings its bytes some time later; a stored box is read some time later; products read their factors when the
// warpgroup waits for them; so that a missing wait, or a buffer that is given back too early, shows. Factors of products are
// found by decoding descriptors as PTX has them. What never goes on is reported as a deadlock. What this cannot show:
// missing proxy fences, the width of registers, speed.
#pragma once
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <functional>
#include <memory>
#include <random>
#include <vector>

#define __device__
#define __forceinline__ inline

struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float __expf(float x) { return expf(x); }

struct __half {
  _Float16 bits;
  __half() = default;
  explicit __half(float x) : bits((_Float16)x) {}
  operator float() const { return (float)bits; }
};
struct __nv_bfloat16 {
  uint16_t bits;
  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float x) {
    uint32_t b;
    memcpy(&b, &x, 4);
    bits = x != x ? 0x7fff : (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
  }
  operator float() const {
    const uint32_t b = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &b, 4);
    return x;
  }
};

namespace host {

constexpr int MOST_SHARED_BYTES = 227 << 10, STACK_BYTES = 128 << 10;
constexpr uint32_t SHARED_BASE = 0x410;  // no more aligned than the GPU promises

[[noreturn]] inline void refuse(const char* what) {
  printf("refused: %s\n", what);
  fflush(stdout);
  _Exit(1);
}

struct Meeting {
  int arrived = 0;
  long generation = 0;
  void arrive(int expected) {
    if (++arrived == expected) arrived = 0, generation++;
  }
};
struct Block {
  std::vector<unsigned char> storage = std::vector<unsigned char>(MOST_SHARED_BYTES + 4096, 0xcd);
  Meeting named[16], warps[32];
  uint32_t lane_addresses[1024];
  uint32_t lane_values[1024];
  int rank, threads;
  unsigned index;
  unsigned char* shared() {  // SHARED_BASE modulo 4096
    const uintptr_t begin = (uintptr_t)storage.data();
    return storage.data() + ((SHARED_BASE - begin) % 4096 + 4096) % 4096;
  }
};
struct Product {
  std::function<void()> run;
  int group;
};
struct Copy {
  std::function<void()> run;
  int group;
};
struct Fiber {
  ucontext_t context;  // where it begins; from its first wait on, `at`: that needs no system call
  jmp_buf at;
  bool begun = false;
  Block* block;
  int thread;
  bool done = false;
  std::function<bool()> ready;
  const char* waits_for = "";
  std::vector<Product> products;
  std::vector<Copy> copies;
  int product_group = 0, copy_group = 0;
  std::vector<std::vector<std::shared_ptr<bool>>> stores{{}};  // by group, the open one last: whether each was read
  long cluster_generation = 0;
};
struct Index {
  unsigned x, y, z;
};
inline jmp_buf scheduler;
inline std::vector<char*> stacks;  // used again and again
inline Fiber* now;
inline std::function<void()> body;
inline std::vector<std::unique_ptr<Block>> blocks;  // of the cluster
inline Meeting cluster_meeting;
inline std::mt19937 random_numbers;
inline std::vector<std::function<void()>> pending;  // copies under way
inline Index grid;

inline void wait(const char* what, std::function<bool()> ready) {
  if (ready() && random_numbers() % 4 != 0) return;
  now->waits_for = what, now->ready = std::move(ready);
  if (_setjmp(now->at) == 0) _longjmp(scheduler, 1);
}
inline void begin_fiber() {
  body();
  now->done = true;
  _longjmp(scheduler, 1);
}
inline void resume(Fiber& fiber) {
  now = &fiber;
  if (_setjmp(scheduler) != 0) return;
  if (fiber.begun) _longjmp(fiber.at, 1);
  fiber.begun = true;
  setcontext(&fiber.context);
}
inline void finish_one_pending() {
  const size_t i = random_numbers() % pending.size();
  const auto run = pending[i];
  pending.erase(pending.begin() + i);
  run();
}
inline void run_cluster(int size, unsigned first_block, int threads, const std::function<void()>& kernel) {
  blocks.clear(), cluster_meeting = {}, pending.clear();
  body = kernel;
  std::vector<std::unique_ptr<Fiber>> fibers;
  for (int rank = 0; rank < size; rank++) {
    blocks.push_back(std::make_unique<Block>());
    Block& b = *blocks.back();
    b.rank = rank, b.threads = threads, b.index = first_block + rank;
    for (int t = 0; t < threads; t++) {
      fibers.push_back(std::make_unique<Fiber>());
      Fiber& f = *fibers.back();
      f.block = &b, f.thread = t;
      if (stacks.size() < fibers.size()) stacks.push_back((char*)malloc(STACK_BYTES));
      f.ready = [] { return true; };
      getcontext(&f.context);
      f.context.uc_stack.ss_sp = stacks[fibers.size() - 1], f.context.uc_stack.ss_size = STACK_BYTES, f.context.uc_link = nullptr;
      makecontext(&f.context, begin_fiber, 0);
    }
  }
  const int warps = (int)fibers.size() / 32;
  for (;;) {
    bool moved = false, all_done = true;
    const int turn = random_numbers() % warps;
    for (int w = 0; w < warps; w++)
      for (int lane = 0; lane < 32; lane++) {
        Fiber& f = *fibers[(w + turn) % warps * 32 + lane];
        if (!f.done && f.ready()) {
          f.ready = [] { return true; };
          resume(f);
          moved = true;
        }
        all_done &= f.done;
      }
    if (!pending.empty() && (!moved || random_numbers() % 3 == 0)) finish_one_pending(), moved = true;
    if (all_done && pending.empty()) return;
    if (!moved) {
      for (const auto& f : fibers)
        if (!f->done && f->thread % 32 == 0) printf("block %d thread %d waits for %s\n", f->block->rank, f->thread, f->waits_for);
      refuse("deadlock");
    }
  }
}

// A shared address of this block, or with its rank + 1 in the upper bits one of another block of the cluster.
inline Block& block_at(uint32_t address) { return address >> 24 ? *blocks.at((address >> 24) - 1) : *now->block; }
inline unsigned char* at(Block& block, uint32_t address) {
  const uint32_t offset = (address & 0xffffff) - SHARED_BASE;
  if (offset >= (uint32_t)MOST_SHARED_BYTES) refuse("an address outside of shared memory");
  return block.shared() + offset;
}
inline unsigned char* at(uint32_t address) { return at(block_at(address), address); }
inline uint32_t swizzled(uint32_t address, int span) { return address ^ (address >> 3 & (span - 16)); }

struct Mbarrier {  // in the 8 bytes that the kernel has for it
  int32_t bytes;
  uint16_t pending : 15, phase : 1, arrivals;
  void settle() {
    if (pending == 0 && bytes == 0) phase ^= 1, pending = arrivals;
  }
};
static_assert(sizeof(Mbarrier) == 8, "as on the device");
inline Mbarrier& mbarrier(Block& block, uint32_t address) { return *(Mbarrier*)at(block, address); }
inline void arrive(Mbarrier& b) {
  if (b.pending == 0) refuse("more arrivals at a barrier than it counts");
  b.pending--, b.settle();
}

inline void meet(Meeting& meeting, int count, const char* what) {
  const long generation = meeting.generation;
  meeting.arrive(count);
  wait(what, [&meeting, generation] { return meeting.generation != generation; });
}
inline void meet_warp() { meet(now->block->warps[now->thread / 32], 32, "its warp"); }

inline Index place_of(unsigned block) { return {block % grid.x, block / grid.x % grid.y, block / grid.x / grid.y}; }
// Runs CUDA code as a grid of `blocks` in clusters along x, one cluster after the other.
inline void launch(Index blocks, int cluster, int threads, int seed, const std::function<void()>& kernel) {
  random_numbers.seed(seed), grid = blocks;
  for (unsigned first = 0; first < grid.x * grid.y * grid.z; first += cluster) run_cluster(cluster, first, threads, kernel);
}

}  // namespace host

#define threadIdx (host::Index{(unsigned)host::now->thread, 0, 0})
#define blockIdx (host::place_of(host::now->block->index))
#define gridDim (host::grid)
inline void __syncwarp() { host::meet_warp(); }
inline void __syncthreads() { host::meet(host::now->block->named[0], host::now->block->threads, "its block"); }
inline void __threadfence() {}
inline uint32_t __shfl_xor_sync(unsigned, uint32_t value, int lanes) {
  host::Block& b = *host::now->block;
  const int me = host::now->thread;
  b.lane_values[me] = value;
  host::meet_warp();
  const uint32_t got = b.lane_values[me ^ lanes];
  host::meet_warp();
  return got;
}
inline int atomicAdd(int* p, int by) { return (*p += by) - by; }
inline void __stcg(float4* p, float4 v) { *p = v; }
inline float4 __ldcg(const float4* p) { return *p; }

struct CUtensorMap {
  const void* base;
  int inner, outer, box_inner, box_outer;
};

namespace ws::sm90 {

// ---- shared_address, dependent_launch, mbarrier ----
inline uint32_t shared_address(const void* p) {
  const ptrdiff_t offset = (const unsigned char*)p - host::now->block->shared();
  if (offset < 0 || offset >= host::MOST_SHARED_BYTES) host::refuse("not in shared memory");
  return (uint32_t)offset + host::SHARED_BASE;
}
inline void wait_for_earlier_launches() {}
inline void let_next_launch_begin() {}
inline void mbarrier_init(uint64_t* barrier, int arrivals) {
  host::Mbarrier& b = host::mbarrier(*host::now->block, shared_address(barrier));
  b.bytes = 0, b.phase = 0, b.pending = b.arrivals = arrivals;
}
inline void mbarrier_init_fence() {}
inline void mbarrier_arrive_expect(uint64_t* barrier, uint32_t bytes) {
  host::Mbarrier& b = host::mbarrier(*host::now->block, shared_address(barrier));
  b.bytes += bytes, host::arrive(b);
}
inline void mbarrier_arrive(uint64_t* barrier) { host::arrive(host::mbarrier(*host::now->block, shared_address(barrier))); }
inline void mbarrier_arrive_at(uint64_t* barrier, uint32_t rank) {
  host::arrive(host::mbarrier(*host::blocks.at(rank), shared_address(barrier)));
}
inline void mbarrier_wait(uint64_t* barrier, uint32_t parity) {
  const host::Mbarrier* b = &host::mbarrier(*host::now->block, shared_address(barrier));
  host::wait("an mbarrier", [b, parity] { return b->phase != parity; });
}
inline bool elect_one() { return host::now->thread % 32 == 0; }
inline void named_sync(int id, int threads) { host::meet(host::now->block->named[id], threads, "a named barrier"); }
inline void named_arrive(int id, int threads) { host::now->block->named[id].arrive(threads); }

// ---- cluster ----
inline uint32_t cluster_rank() { return host::now->block->rank; }
inline uint32_t cluster_size() { return host::blocks.size(); }
inline void cluster_arrive() {
  host::now->cluster_generation = host::cluster_meeting.generation;
  host::cluster_meeting.arrive((int)host::blocks.size() * host::now->block->threads);
}
inline void cluster_wait() {
  const long generation = host::now->cluster_generation;
  host::wait("its cluster", [generation] { return host::cluster_meeting.generation != generation; });
}
inline void cluster_sync() { cluster_arrive(), cluster_wait(); }
inline void cluster_meet() { cluster_sync(); }
inline uint32_t map_shared(uint32_t address, uint32_t rank) { return address | (rank + 1) << 24; }
inline float4 load_cluster(uint32_t remote) { return *(const float4*)host::at(remote); }

// ---- tma ----
inline void tma_prefetch_map(const CUtensorMap*) {}
inline uint64_t l2_evict_first() { return 0; }
inline uint64_t l2_evict_last() { return 0; }
inline uint64_t l2_evict_normal() { return 0; }
inline void tma_multicast_2d(uint32_t to, const CUtensorMap* map, uint64_t* barrier, int inner, int outer, uint16_t ranks, uint64_t) {
  const uint32_t barrier_address = shared_address(barrier);
  const CUtensorMap m = *map;
  const int row_bytes = m.box_inner * 2;
  if (to % (row_bytes * 8) != 0) host::refuse("a box that does not begin where its swizzle does");
  if (m.box_inner > 64 || m.box_outer > 256) host::refuse("a box that is too large");
  for (int rank = 0; rank < (int)host::blocks.size(); rank++) {
    if (!(ranks >> rank & 1)) continue;
    host::Block* const block = host::blocks[rank].get();
    memset(host::at(*block, to), 0xff, row_bytes * m.box_outer);
    host::pending.push_back([=] {
      for (int r = 0; r < m.box_outer; r++)
        for (int c = 0; c < m.box_inner; c++) {
          const bool inside = outer + r >= 0 && outer + r < m.outer && inner + c >= 0 && inner + c < m.inner;
          const uint16_t bits = inside ? ((const uint16_t*)m.base)[(size_t)(outer + r) * m.inner + inner + c] : 0;
          *(uint16_t*)host::at(*block, host::swizzled(to + r * row_bytes + c * 2, row_bytes)) = bits;
        }
      host::Mbarrier& b = host::mbarrier(*block, barrier_address);
      b.bytes -= row_bytes * m.box_outer, b.settle();
    });
  }
}
inline void tma_load_2d(uint32_t to, const CUtensorMap* map, uint64_t* barrier, int inner, int outer, uint64_t l2) {
  tma_multicast_2d(to, map, barrier, inner, outer, 1 << host::now->block->rank, l2);
}
inline void fence_async_proxy() {}
inline void tma_store_2d(const CUtensorMap* map, uint32_t from, int inner, int outer) {
  const CUtensorMap m = *map;
  const int row_bytes = m.box_inner * 2;
  if (from % (row_bytes * 8) != 0) host::refuse("a stored box that does not begin where its swizzle does");
  host::Block* const block = host::now->block;
  const auto read = std::make_shared<bool>(false);
  host::now->stores.back().push_back(read);
  host::pending.push_back([=] {
    for (int r = 0; r < m.box_outer; r++)
      for (int c = 0; c < m.box_inner; c++)
        if (outer + r < m.outer && inner + c < m.inner)
          ((uint16_t*)m.base)[(size_t)(outer + r) * m.inner + inner + c] =
              *(uint16_t*)host::at(*block, host::swizzled(from + r * row_bytes + c * 2, row_bytes));
    *read = true;
  });
}
inline void tma_store_commit() { host::now->stores.emplace_back(); }
template <int LEFT>
inline void tma_store_wait_read() {
  host::Fiber& f = *host::now;
  host::wait("stored boxes to be read", [&f] {
    for (size_t group = 0; group + 1 + LEFT < f.stores.size(); group++)
      for (const auto& read : f.stores[group])
        if (!*read) return false;
    return true;
  });
}

// ---- stmatrix, rounding ----
inline uint32_t both(uint16_t low, uint16_t high) { return low | (uint32_t)high << 16; }
template <class T>
inline uint16_t bits_of(T x) {
  uint16_t bits;
  memcpy(&bits, &x, 2);
  return bits;
}
inline uint32_t round_pair(float low, float high, __half) { return both(bits_of(__half(low)), bits_of(__half(high))); }
inline uint32_t round_pair(float low, float high, __nv_bfloat16) {
  return both(bits_of(__nv_bfloat16(low)), bits_of(__nv_bfloat16(high)));
}
template <bool TRANSPOSED>
inline void store_matrices(uint32_t address, const uint32_t (&fragment)[4]) {
  host::Block& b = *host::now->block;
  const int me = host::now->thread, lane = me % 32, first = me - lane;
  if (address % 16 != 0) host::refuse("a row of stmatrix that is not aligned");
  b.lane_addresses[me] = address;
  host::meet_warp();
  for (int matrix = 0; matrix < 4; matrix++)
    for (int half = 0; half < 2; half++) {
      const int r = lane / 4, c = lane % 4 * 2 + half;
      const uint32_t row = b.lane_addresses[first + matrix * 8 + (TRANSPOSED ? c : r)];
      *(uint16_t*)host::at(row + (TRANSPOSED ? r : c) * 2) = (uint16_t)(fragment[matrix] >> 16 * half);
    }
  host::meet_warp();
}

// ---- wgmma ----
inline void wgmma_fence() {}
template <int COUNT>
inline void pin_registers(float (&)[COUNT]) {}
template <int COUNT>
inline void registers_decrease() {}
template <int COUNT>
inline void registers_increase() {}

// The value at (row of M or column of N, term of K) of the operand that a descriptor describes.
template <class T>
inline float operand(host::Block& block, uint64_t descriptor, bool mn_major, int mn, int k) {
  const uint32_t start = (descriptor & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4;
  const uint32_t stride = (descriptor >> 32 & 0x3fff) << 4;
  const int mode = descriptor >> 62, span = mode == 1 ? 128 : mode == 2 ? 64 : mode == 3 ? 32 : 16;
  if ((descriptor >> 49 & 7) != 0) host::refuse("a base offset");
  const int wide = span / 2;
  const uint32_t address = mn_major ? start + mn / wide * leading + k / 8 * stride + k % 8 * span + mn % wide * 2
                                    : start + mn / 8 * stride + mn % 8 * span + k * 2;
  return (float)*(const T*)host::at(block, host::swizzled(address, span));
}
template <class T, int N, int LEFT_MN_MAJOR, int RIGHT_MN_MAJOR>
inline void wgmma(float (&d)[N / 2], uint64_t left, uint64_t right, int accumulate) {
  host::Fiber& f = *host::now;
  host::Block* const block = f.block;
  const int lane = f.thread % 32, warp = f.thread / 32 % 4;
  float* const sums = d;
  f.products.push_back({[=] {
    float rows[2][16];
    for (int half = 0; half < 2; half++)
      for (int k = 0; k < 16; k++) rows[half][k] = operand<T>(*block, left, LEFT_MN_MAJOR, warp * 16 + lane / 4 + half * 8, k);
    for (int j = 0; j < N / 8; j++)
      for (int i = 0; i < 2; i++) {
        float column[16];
        for (int k = 0; k < 16; k++) column[k] = operand<T>(*block, right, RIGHT_MN_MAJOR, j * 8 + lane % 4 * 2 + i, k);
        for (int half = 0; half < 2; half++) {
          float& sum = sums[4 * j + 2 * half + i];
          if (!accumulate) sum = 0.0f;
          for (int k = 0; k < 16; k++) sum += rows[half][k] * column[k];
        }
      }
  }, f.product_group});
}
inline void wgmma_commit() { host::now->product_group++; }
template <int LEFT>
inline void wgmma_wait() {
  host::Fiber& f = *host::now;
  while (!f.products.empty() && f.products.front().group < f.product_group - LEFT)
    f.products.front().run(), f.products.erase(f.products.begin());
  host::meet_warp();
}

// ---- mma.sync, cp.async ----
template <int BYTES>
inline void copy_async(uint32_t to, const void* from, bool inside) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async moves 4, 8 or 16 bytes");
  if (to % BYTES != 0 || (uintptr_t)from % BYTES != 0) host::refuse("a copy that is not aligned");
  unsigned char* const target = host::at(to);
  memset(target, 0xff, BYTES);
  host::now->copies.push_back({[=] {
    if (inside) memcpy(target, from, BYTES);
    else memset(target, 0, BYTES);
  }, host::now->copy_group});
}
inline void copy_commit() { host::now->copy_group++; }
template <int LEFT>
inline void copy_wait() {
  host::Fiber& f = *host::now;
  while (!f.copies.empty() && f.copies.front().group < f.copy_group - LEFT) f.copies.front().run(), f.copies.erase(f.copies.begin());
}
inline void store_shared(uint32_t to, uint16_t bits) { *(uint16_t*)host::at(to) = bits; }
template <bool TRANSPOSED>
inline void load_matrices(uint32_t (&fragment)[4], uint32_t address) {
  host::Block& b = *host::now->block;
  const int me = host::now->thread, lane = me % 32, first = me - lane;
  if (address % 16 != 0) host::refuse("a row of ldmatrix that is not aligned");
  b.lane_addresses[me] = address;
  host::meet_warp();
  for (int matrix = 0; matrix < 4; matrix++) {
    uint16_t halves[2];
    for (int half = 0; half < 2; half++) {
      const int r = lane / 4, c = lane % 4 * 2 + half;
      halves[half] = *(uint16_t*)host::at(b.lane_addresses[first + matrix * 8 + (TRANSPOSED ? c : r)] + (TRANSPOSED ? r : c) * 2);
    }
    fragment[matrix] = both(halves[0], halves[1]);
  }
  host::meet_warp();
}
template <class T>
inline float half_of(uint32_t pair, int half) {
  const uint16_t bits = (uint16_t)(pair >> 16 * half);
  T x;
  memcpy(&x, &bits, 2);
  return (float)x;
}
template <class T>
inline void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, T) {
  const int me = host::now->thread, lane = me % 32, first = me - lane;
  static uint32_t factors[1024][6];
  memcpy(factors[me], a, 16), factors[me][4] = b0, factors[me][5] = b1;
  host::meet_warp();
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 16; k++) {
      const int row = lane / 4, column = lane % 4 * 2 + i % 2;
      d[i] += half_of<T>(factors[first + row * 4 + k / 2 % 4][i / 2 + k / 8 * 2], k % 2) *
              half_of<T>(factors[first + column * 4 + k / 2 % 4][4 + k / 8], k % 2);
    }
  host::meet_warp();
}

}  // namespace ws::sm90
