// Products by warpgroup and copies that report to a barrier, of `warpsmith_cuda_warpgroup.h`, for g++. Products find their factors by decoding descriptors as PTX has
// them, when the warpgroup waits; copies arrive when somebody waits at their barrier.
#ifndef WARPSMITH_CUDA_WARPGROUP_H
#define WARPSMITH_CUDA_WARPGROUP_H
#include "warpsmith_cuda_mma.h"
#include "warpsmith_cuda_wgmma.h"

namespace ws {

template <int ROWS>
inline int tile_place(int row, int column) {
  return column / 64 * (ROWS * 128) + row * 128 + ((column % 64 * 2) ^ (row % 8 * 16));
}
inline uint64_t columns_descriptor(const void* p, uint32_t panel_bytes) {
  const uint64_t start = (shared_place(p) & 0x3ffff) >> 4, leading = panel_bytes >> 4, stride = 1024 >> 4, swizzle = 1;
  return start | leading << 16 | stride << 32 | swizzle << 62;
}
inline void copy_arrive(Barrier* b) {
  Phases& p = phases(b);
  Copies& mine = own_copies();
  for (const Copy& c : mine.queue) p.under_way.push_back({c.to, c.from, (uint32_t)c.bytes}), p.bytes += c.bytes;
  mine.queue.clear();
  barrier_arrive(b);
  for (host::Fiber& f : host::fibers)  // those who wait take it in
    if (f.state == host::AT_PHASE && f.phase_of == &p) f.state = host::RUNS;
}

struct Named {
  int arrived = 0;
  unsigned generation = 0;
  uint64_t block = 0;
};
inline Named named[16];
inline Named& come_by(int id, int threads) {
  Named& n = named[id];
  if (n.block != host::blocks_run) n.arrived = 0, n.block = host::blocks_run;
  if (++n.arrived == threads) {
    n.arrived = 0, n.generation++;
    for (host::Fiber& f : host::fibers)
      if (f.state == host::AT_PHASE && f.phase_of == &n) f.state = host::RUNS;
  }
  return n;
}
inline void named_arrive(int id, int threads) { come_by(id, threads); }
inline void named_sync(int id, int threads) {
  const unsigned generation = named[id].generation;
  Named& n = come_by(id, threads);
  while (n.generation == generation) {
    host::now->phase_of = &n;
    host::wait(host::AT_PHASE);
  }
}

// The value at (row of M or column of N, term of the sum) of the factor that a descriptor describes; `by_rows`: its rows are the terms.
template <class T>
inline float factor(uint64_t descriptor, bool by_rows, int mn, int k) {
  if (descriptor >> 62 != 1 || (descriptor >> 49 & 7) != 0) refuse("a descriptor of another layout");
  const uint32_t start = (descriptor & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4, stride = (descriptor >> 32 & 0x3fff) << 4;
  uint32_t place = by_rows ? start + mn / 64 * leading + k / 8 * stride + k % 8 * 128 + mn % 64 * 2 : start + mn / 8 * stride + mn % 8 * 128 + k * 2;
  place ^= (place >> 7 & 7) << 4;
  T x;
  memcpy(&x, at_place(place), 2);
  return load_as(x);
}
template <class T, int N, class Left>
inline void ask_product(float* d, uint64_t a, uint64_t b, bool add, bool by_rows, const Left& left) {
  ask({a, b, add, N});
  queue_product(d, [=] {
    const int lane = threadIdx.x % 32;
    for (int j = 0; j < N / 8; j++)
      for (int odd = 0; odd < 2; odd++)
        for (int half = 0; half < 2; half++) {
          float& to = d[4 * j + 2 * half + odd];
          double sum = add ? to : 0.0;
          for (int k = 0; k < 16; k++) sum += (double)left(half, k) * factor<T>(b, by_rows, 8 * j + lane % 4 * 2 + odd, k);
          to = cut_off(sum);
        }
  });
}
template <class T, int N>
inline void wgmma_ss(float (&d)[N / 2], uint64_t a, uint64_t b, bool add) {
  const int first = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  ask_product<T, N>(d, a, b, add, false, [=](int half, int k) { return factor<T>(a, false, first + 8 * half, k); });
}
// A row's 16 terms are in the registers of four lanes, which are read when the product is asked for.
template <class T, int N>
inline void wgmma_rs(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b) {
  float terms[2][16];
  for (int i = 0; i < 16; i++) {
    const int from = (int)threadIdx.x / 4 * 4 + i / 2 % 4;
    for (int half = 0; half < 2; half++) {
      const uint32_t low = host_exchange(a[half], from), high = host_exchange(a[half + 2], from);
      const uint16_t bits = (uint16_t)((i < 8 ? low : high) >> 16 * (i % 2));
      T x;
      memcpy(&x, &bits, 2);
      terms[half][i] = load_as(x);
    }
  }
  std::array<float, 32> kept;
  memcpy(kept.data(), terms, sizeof terms);
  ask_product<T, N>(d, 0, b, true, true, [=](int half, int k) { return kept[16 * half + k]; });
}

}  // namespace ws
#endif
