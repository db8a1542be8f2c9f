// The tensor cores and asynchronous copies of `warpsmith_cuda_mma.h` for g++. Products read the bits that the
// instruction reads, and add as tensor cores do: exactly within a few terms, then cut off towards zero (Fasi et al. 2021,
// https://doi.org/10.7717/peerj-cs.330). What is copied arrives when the thread waits for it, not before.
#ifndef WARPSMITH_CUDA_MMA_H
#define WARPSMITH_CUDA_MMA_H
#include <vector>
#include "warpsmith_cuda.h"

namespace ws {

inline float as_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
inline uint32_t as_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}
inline uint32_t tf32(float x) { return x - x == 0.0f ? (as_bits(x) + 0x1000u) & ~0x1fffu : as_bits(x); }
inline void tf32_split(float x, uint32_t& high, uint32_t& low) {
  high = (as_bits(x) + 0x1000u) & 0xffffe000u;
  low = as_bits(x - as_float(high));
}

inline float towards_zero(double x) {
  const float near = (float)x;
  return near - near == 0.0f && fabs((double)near) > fabs(x) ? as_float(as_bits(near) - 1) : near;
}

// Two sets of fragments, so that a lane may write the next while others still read: one barrier is enough.
struct Fragments {
  uint32_t a[4], b[2];
};
inline Fragments fragments[2][1024];
inline unsigned turns[1024];
// `value(bits, i)`: element i of a register. `PER`: elements of one. They are added TERMS at a time.
template <int PER, int TERMS, class Value>
inline void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const Value& value) {
  const unsigned me = threadIdx.x, first = me / 32 * 32, lane = me % 32;
  Fragments* all = fragments[turns[me]++ % 2] + first;
  memcpy(all[lane].a, a, sizeof a);
  memcpy(all[lane].b, b, sizeof b);
  __syncwarp();
  float at[2][8 * PER], bt[2][8 * PER];
  for (int half = 0; half < 2; half++)
    for (int k = 0; k < 8 * PER; k++) {
      const int high = k / (4 * PER), t = k / PER % 4, g = lane / 4, column = lane % 4 * 2 + half;
      at[half][k] = value(all[g * 4 + t].a[half + 2 * high], k % PER);
      bt[half][k] = value(all[column * 4 + t].b[high], k % PER);
    }
  for (int i = 0; i < 4; i++)
    for (int from = 0; from < 8 * PER; from += TERMS) {
      double sum = d[i];
      for (int k = from; k < from + TERMS; k++) sum += (double)at[i / 2][k] * bt[i % 2][k];
      d[i] = towards_zero(sum);
    }
}
inline void mma_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  mma<1, 4>(d, a, b, [](uint32_t bits, int) { return as_float(bits & ~0x1fffu); });
}
inline void mma_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  mma<2, 8>(d, a, b, [](uint32_t bits, int i) {
    const uint16_t half = (uint16_t)(bits >> 16 * i);
    __half x;
    memcpy(&x, &half, 2);
    return __half2float(x);
  });
}
inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  mma<2, 8>(d, a, b, [](uint32_t bits, int i) { return as_float(i == 0 ? bits << 16 : bits & 0xffff0000u); });
}

template <class T>
inline uint32_t pack_pair_of(T low, T high) {
  const T pair[] = {low, high};
  uint32_t bits;
  memcpy(&bits, pair, 4);
  return bits;
}
inline uint32_t pack_f16(float low, float high) { return pack_pair_of(__float2half_rn(low), __float2half_rn(high)); }
inline uint32_t pack_bf16(float low, float high) { return pack_pair_of(__float2bfloat16_rn(low), __float2bfloat16_rn(high)); }

template <class T>
inline Pack<float, 2> unpack_pair_of(uint32_t bits) {
  T pair[2];
  memcpy(pair, &bits, 4);
  return {{load_as(pair[0]), load_as(pair[1])}};
}
inline Pack<float, 2> unpack_f16(uint32_t bits) { return unpack_pair_of<__half>(bits); }
inline Pack<float, 2> unpack_bf16(uint32_t bits) { return unpack_pair_of<__nv_bfloat16>(bits); }

inline void must_be_aligned(const void* p, int bytes, const char* what) {
  if ((uintptr_t)p % bytes != 0) fprintf(stderr, "%s at %p, not a multiple of %d\n", what, p, bytes), abort();
}
inline const void* rows[1024];
// Everybody's row first, then everybody's elements; the second barrier keeps the rows until all have read.
template <class Element>
inline void ldmatrix(uint32_t (&r)[4], const void* row, const Element& element) {
  must_be_aligned(row, 16, "a row of ldmatrix");
  const unsigned me = threadIdx.x, first = me / 32 * 32, lane = me % 32;
  rows[me] = row;
  __syncwarp();
  for (int j = 0; j < 4; j++)
    for (int half = 0; half < 2; half++)
      element((uint16_t*)&r[j] + half, (const uint16_t* const*)rows + first + 8 * j, lane / 4, lane % 4 * 2 + half);
  __syncwarp();
}
inline void ldmatrix_x4(uint32_t (&r)[4], const void* row) {
  ldmatrix(r, row, [](uint16_t* to, const uint16_t* const* from, int g, int t) { *to = from[g][t]; });
}
inline void ldmatrix_x4_trans(uint32_t (&r)[4], const void* row) {
  ldmatrix(r, row, [](uint16_t* to, const uint16_t* const* from, int g, int t) { *to = from[t][g]; });
}

struct Copy {
  void* to;
  const void* from;  // null: zeros
  int bytes, group;
};
struct Copies {
  std::vector<Copy> queue;
  int groups = 0;
  uint64_t block = 0;
};
inline thread_local Copies of_thread[1024];
inline Copies& own_copies() {
  Copies& mine = of_thread[threadIdx.x];
  if (mine.block != host::blocks_run) mine.queue.clear(), mine.groups = 0, mine.block = host::blocks_run;
  return mine;
}
template <int BYTES>
inline void copy_async(void* shared, const void* global, bool there) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async moves 4, 8 or 16 bytes");
  must_be_aligned(shared, BYTES, "cp.async to");
  must_be_aligned(global, BYTES, "cp.async from");
  Copies& mine = own_copies();
  memset(shared, 0xff, BYTES);  // whatever lies there is lost from now on
  mine.queue.push_back({shared, there ? global : nullptr, BYTES, mine.groups});
}
inline void copy_commit() { own_copies().groups++; }
inline void copy_wait(int left) {
  Copies& mine = own_copies();
  size_t done = 0;
  for (; done < mine.queue.size() && mine.queue[done].group < mine.groups - left; done++) {
    const Copy& c = mine.queue[done];
    if (c.from == nullptr) memset(c.to, 0, c.bytes);
    else memcpy(c.to, c.from, c.bytes);
  }
  mine.queue.erase(mine.queue.begin(), mine.queue.begin() + done);
}
template <int LEFT>
inline void copy_wait() {
  copy_wait(LEFT);
}

}  // namespace ws
#endif
