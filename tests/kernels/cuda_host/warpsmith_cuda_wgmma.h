// Barriers in shared memory, bulk copies and products by warpgroup of `warpsmith_cuda_wgmma.h` for g++. Copies arrive when
// somebody waits for them, products when the warpgroup waits, so that a missing wait, or shared memory that is given back
// too early, shows. Products find their factors by decoding the descriptors as PTX has them.
#ifndef WARPSMITH_CUDA_WGMMA_H
#define WARPSMITH_CUDA_WGMMA_H
#include <array>
#include <functional>
#include <map>
#include <vector>
#include "warpsmith_cuda.h"

namespace ws {

[[noreturn]] inline void refuse(const char* what) {
  fprintf(stderr, "thread %d: %s\n", threadIdx.x, what);
  abort();
}
inline uint32_t shared_place(const void* p) {
  const ptrdiff_t place = (const unsigned char*)p - memory;
  if (place < 0 || place >= (ptrdiff_t)sizeof memory) refuse("not in dynamic shared memory");
  return (uint32_t)place + 0x2410;  // no more aligned than the GPU says
}
template <int TO>
inline unsigned char* aligned_shared(unsigned char* p) {
  return p + (TO - shared_place(p) % TO) % TO;
}
inline const unsigned char* at_place(uint32_t place) { return memory + place - 0x2410; }

using Barrier = uint64_t;
struct Copied {
  void* to;
  const void* from;  // null: zeros
  uint32_t bytes;
};
struct Phases {
  int count = 0, missing = 0;
  int64_t bytes = 0;  // promised and not yet there
  uint32_t phase = 0;
  std::vector<Copied> under_way;

  void end_if_done() {
    if (missing > 0 || bytes != 0) return;
    missing = count, phase ^= 1;
    for (host::Fiber& f : host::fibers)
      if (f.state == host::AT_PHASE && f.phase_of == this) f.state = host::RUNS;
  }
};
inline std::map<const Barrier*, Phases> barriers;
inline Phases& phases(Barrier* b) {
  Phases& found = barriers[b];
  if (*b != host::blocks_run || found.count == 0) refuse("a barrier that nobody initialised");
  return found;
}
inline void barrier_init(Barrier* b, int count) {
  if (shared_place(b) % 8 != 0) refuse("a barrier that is not aligned");
  *b = host::blocks_run;
  barriers[b] = Phases{count, count};
}
inline void barrier_ready() {}
inline void barrier_arrive(Barrier* b) {
  Phases& p = phases(b);
  if (p.missing-- <= 0) refuse("too many arrivals");
  p.end_if_done();
}
inline void barrier_expect(Barrier* b, uint32_t bytes) {
  phases(b).bytes += bytes;
  barrier_arrive(b);
}
inline void barrier_wait(Barrier* b, uint32_t phase) {
  Phases& p = phases(b);
  while (p.phase == phase) {
    std::vector<Copied> arriving;
    arriving.swap(p.under_way);
    for (const Copied& c : arriving) {
      if (c.from == nullptr) memset(c.to, 0, c.bytes);
      else memcpy(c.to, c.from, c.bytes);
      p.bytes -= c.bytes;
    }
    if (!arriving.empty()) p.end_if_done();
    if (p.phase != phase) break;
    host::now->phase_of = &p;
    host::wait(host::AT_PHASE);
  }
}
inline void bulk_copy(void* shared, const void* global, uint32_t bytes, Barrier* b) {
  if ((shared_place(shared) | (uintptr_t)global | bytes) % 16 != 0) refuse("a bulk copy that is not aligned");
  Phases& p = phases(b);
  p.under_way.push_back({shared, global, bytes});
  for (host::Fiber& f : host::fibers)  // those who wait take it in
    if (f.state == host::AT_PHASE && f.phase_of == &p) f.state = host::RUNS;
}

inline uint64_t tile_descriptor(const void* p) {
  const uint64_t start = (shared_place(p) & 0x3ffff) >> 4, leading = 1, stride = 1024 >> 4, swizzle = 1;
  return start | leading << 16 | stride << 32 | swizzle << 62;
}
inline uint64_t packed_descriptor(const void* p, uint32_t leading, uint32_t stride) {
  if (shared_place(p) % 16 != 0 || leading >= 1 << 14 || stride >= 1 << 14) refuse("a factor that no descriptor can tell");
  return (uint64_t)((shared_place(p) & 0x3ffff) >> 4 | leading << 16) | (uint64_t)stride << 32;
}
inline void shared_stored() {}
inline uint32_t two_halves(float a, float b) {
  const __half both[] = {__float2half_rn(a), __float2half_rn(b)};
  uint32_t bits;
  memcpy(&bits, both, 4);
  return bits;
}
// Element (row, k) of a K-major matrix of halves: PTX ISA 9.0, 9.7.15.5.1.2, "Matrix descriptor format" and "Canonical
// layouts": ((8, m), (T, 2 k)) : ((8 T, SBO), (1, T)), T elements of 16 bytes, then bits 4 to 6 of the address XOR bits 7
// to 9 of it; without a swizzle ((8, m), (T, 2 k)) : ((T, SBO), (1, LBO)).
inline float element(uint64_t descriptor, int row, int k) {
  const uint32_t start = (descriptor & 0x3fff) << 4, stride = (descriptor >> 32 & 0x3fff) << 4;
  if (descriptor >> 46 == 0) {
    const uint32_t leading = (descriptor >> 16 & 0x3fff) << 4;
    __half plain;
    memcpy(&plain, at_place(start + row / 8 * stride + row % 8 * 16 + k / 8 * leading + k % 8 * 2), 2);
    return __half2float(plain);
  }
  if (descriptor >> 62 != 1 || (descriptor >> 49 & 7) != 0) refuse("a descriptor of another layout");
  uint32_t place = start + row / 8 * stride + row % 8 * 128 + 2 * k;
  place ^= (place >> 7 & 7) << 4;
  __half x;
  memcpy(&x, at_place(place), 2);
  return __half2float(x);
}
// As tensor cores add: exactly within a step, then cut off towards zero.
inline float cut_off(double x) {
  const float near = (float)x;
  if (near - near != 0.0f || fabs((double)near) <= fabs(x)) return near;
  return nextafterf(near, 0.0f);
}

template <int COUNT>
inline void registers_less() {}
template <int COUNT>
inline void registers_more() {}

struct Asked {
  uint64_t a, b;
  bool add;
  int columns;
};
struct Warpgroup {
  std::vector<Asked> asked;  // by those who came first; the others must ask for the same
  size_t done[128];
  bool begun[128];
  uint64_t block = 0;
};
struct Underway {
  std::function<void()> run;
  const float* to;
  int group;
};
struct Products {
  std::vector<Underway> queue;
  int groups = 0;
};
inline Warpgroup warpgroups[8];
inline Products products[1024];
inline Warpgroup& warpgroup() {
  Warpgroup& own = warpgroups[threadIdx.x / 128];
  if (own.block != host::blocks_run) {
    own.asked.clear(), own.block = host::blocks_run;
    memset(own.done, 0, sizeof own.done), memset(own.begun, 0, sizeof own.begun);
  }
  return own;
}
inline void warpgroup_sync() { host::wait(host::AT_WARPGROUP); }
inline void products_begin() { warpgroup().begun[threadIdx.x % 128] = true; }
inline void multiply(const Asked& p, float* d);
// All of a warpgroup ask for the same.
inline void ask(const Asked& wanted) {
  Warpgroup& own = warpgroup();
  const int me = threadIdx.x % 128;
  if (!own.begun[me]) refuse("a product before products_begin");
  const size_t number = own.done[me]++;
  if (number == own.asked.size()) own.asked.push_back(wanted);
  const Asked& same = own.asked[number];
  if (same.a != wanted.a || same.b != wanted.b || same.add != wanted.add) refuse("a warpgroup's threads ask for different products");
}
inline void queue_product(const float* d, std::function<void()> run) {
  products[threadIdx.x].queue.push_back({std::move(run), d, products[threadIdx.x].groups});
}
template <int N>
inline void product_64(float* d, uint64_t a, uint64_t b, bool add) {
  const Asked wanted = {a, b, add, N};
  ask(wanted);
  queue_product(d, [=] { multiply(wanted, d); });
}
inline void product_64x128(float (&d)[64], uint64_t a, uint64_t b, bool add) { product_64<128>(d, a, b, add); }
inline void products_commit() { products[threadIdx.x].groups++; }
inline void multiply(const Asked& p, float* d) {
  const int lane = threadIdx.x % 32, first = threadIdx.x % 128 / 32 * 16 + lane / 4;
  float at[2][16], bt[16];
  for (int k = 0; k < 16; k++) at[0][k] = element(p.a, first, k), at[1][k] = element(p.a, first + 8, k);
  for (int j = 0; j < p.columns / 8; j++)
    for (int odd = 0; odd < 2; odd++) {
      for (int k = 0; k < 16; k++) bt[k] = element(p.b, 8 * j + lane % 4 * 2 + odd, k);
      for (int half = 0; half < 2; half++) {
        float& to = d[4 * j + 2 * half + odd];
        double sum = p.add ? to : 0.0;
        for (int k = 0; k < 16; k++) sum += (double)at[half][k] * bt[k];
        to = cut_off(sum);
      }
    }
}
// `d`: sums that have to be among what is done, or null.
inline void finish_products(int left, const float* d) {
  Products& own = products[threadIdx.x];
  bool found = d == nullptr;
  size_t done = 0;
  for (; done < own.queue.size() && own.queue[done].group < own.groups - left; done++) {
    own.queue[done].run();
    found |= own.queue[done].to == d;
  }
  if (!found) refuse("a wait for sums that are not made");
  own.queue.erase(own.queue.begin(), own.queue.begin() + done);
  if (own.queue.empty()) warpgroup().begun[threadIdx.x % 128] = false;
}
template <int LEFT>
inline void products_wait(float (&d)[64]) { finish_products(LEFT, d); }
template <int LEFT>
inline void products_left() { finish_products(LEFT, nullptr); }
inline void products_done() { finish_products(0, nullptr); }
template <int COUNT>
inline void sums_done(float (&)[COUNT]) {}

}  // namespace ws
#endif
