// Two neighbours in half precision as one register, and weights on their way through shared memory. For compute capability 8.0 and later; include it from
// the unit itself, after warpsmith_cuda_mma.h.
//
// Each operation of a Pair is rounded to nearest as it is in torch, where every tensor between two operations has the half type. Integers of 8 and of 4 bits
// are widened by their bits, without conversions: under the exponent of a power of two an integer is the lowest bits of a fraction, and one
// subtraction, which is exact, takes that power away (Kim et al., 2022, https://arxiv.org/abs/2211.10017).
#ifndef WARPSMITH_CUDA_PAIRS_H
#define WARPSMITH_CUDA_PAIRS_H
#include "warpsmith_cuda_states.h"

namespace ws {

// The lower half is the first.
template <class T>
struct Pair {
  uint32_t bits;
};
// V elements; of an odd number the last one has its register to itself.
template <int V>
struct Halves {
  uint32_t pair[(V + 1) / 2];
};
// What no kernel under way writes, so that nothing holds the load up.
template <class T>
__device__ __forceinline__ T read_only(const T* p) {
  if constexpr (sizeof(T) == 2) {
    const uint16_t bits = __ldg(reinterpret_cast<const unsigned short*>(p));
    T value;
    memcpy(&value, &bits, 2);
    return value;
  } else {
    return *p;
  }
}

template <class T>
__device__ __forceinline__ Pair<T> make_pair(T first, T second) {
  const Pack<T, 2> both{{first, second}};
  Pair<T> pair;
  memcpy(&pair.bits, &both, 4);
  return pair;
}
template <class T>
__device__ __forceinline__ Pair<T> splat_pair(T value) { return make_pair(value, value); }
template <int V, class T>
__device__ __forceinline__ Pack<T, V> splat_pack(T value) {
  Pack<T, V> values;
#pragma unroll
  for (int v = 0; v < V; v++) values.at[v] = value;
  return values;
}

#define WS_PAIR_OPERATION(T, T2, OPERATOR, INTRINSIC)                                     \
  __device__ __forceinline__ Pair<T> operator OPERATOR(const Pair<T>& a, const Pair<T>& b) { \
    T2 left, right;                                                                       \
    memcpy(&left, &a.bits, 4), memcpy(&right, &b.bits, 4);                                \
    const T2 result = INTRINSIC(left, right);                                             \
    Pair<T> pair;                                                                         \
    memcpy(&pair.bits, &result, 4);                                                       \
    return pair;                                                                          \
  }
#define WS_PAIR_OPERATIONS(T, T2)            \
  WS_PAIR_OPERATION(T, T2, +, __hadd2_rn)    \
  WS_PAIR_OPERATION(T, T2, -, __hsub2_rn)    \
  WS_PAIR_OPERATION(T, T2, *, __hmul2_rn)
#if !defined(WARPSMITH_NO_HALVES) || defined(__CUDA_FP16_H__)
WS_PAIR_OPERATIONS(__half, __half2)
#endif
#if !defined(WARPSMITH_NO_HALVES) || defined(__CUDA_BF16_H__)
WS_PAIR_OPERATIONS(__nv_bfloat16, __nv_bfloat162)
#endif
#undef WS_PAIR_OPERATIONS
#undef WS_PAIR_OPERATION

// A constant, which the type must hold exactly.
template <class T>
__device__ __forceinline__ Pair<T> operator+(const Pair<T>& a, float b) { return a + splat_pair(store_as<T>(b)); }
template <class T>
__device__ __forceinline__ Pair<T> operator-(const Pair<T>& a, float b) { return a - splat_pair(store_as<T>(b)); }
template <class T>
__device__ __forceinline__ Pair<T> operator*(const Pair<T>& a, float b) { return a * splat_pair(store_as<T>(b)); }
template <class T>
__device__ __forceinline__ Pair<T> to_float(const Pair<T>& a) { return a; }  // of integers, which are widened as they are read

// (bits & mask) | power, as one instruction, which the compiler makes two of where both are constants.
template <uint32_t MASK, uint32_t POWER>
__device__ __forceinline__ uint32_t raise_bits(uint32_t bits) {
#ifdef __CUDA_ARCH__
  uint32_t raised;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(raised) : "r"(bits), "n"(MASK), "n"(POWER));
  return raised;
#else
  return (bits & MASK) | POWER;
#endif
}

// Bits of the powers of two under which integers are widened: of bfloat16 7 bits of a fraction lie below 128, of float16 10 below 1024.
template <class T>
inline constexpr bool short_fraction = false;
#if !defined(WARPSMITH_NO_HALVES) || defined(__CUDA_BF16_H__)
template <>
inline constexpr bool short_fraction<__nv_bfloat16> = true;
#endif

// Signed bytes, each in the lower half of 16 bits.
template <class T>
__device__ __forceinline__ Pair<T> widen_bytes(uint32_t bytes) {
  if constexpr (short_fraction<T>) {  // seven bits, and the eighth as twice their power, taken away
    const Pair<T> low{raise_bits<0x007f007f, 0x43004300>(bytes)}, sign{raise_bits<0x00800080, 0x43004300>(bytes)};
    return low - sign;
  } else {
    const Pair<T> biased{(bytes ^ 0x00800080u) | 0x64006400u}, bias{0x64806480u};
    return biased - bias;
  }
}
// Four bits each, at the bottom of 16; above them may be others.
template <class T>
__device__ __forceinline__ Pair<T> widen_nibbles(uint32_t nibbles) {
  constexpr uint32_t POWER = short_fraction<T> ? 0x43004300u : 0x64006400u;
  const Pair<T> raised{raise_bits<0x000f000f, POWER>(nibbles)}, power{POWER};
  return raised - power;
}

template <class A, class B>
inline constexpr bool is_type = false;
template <class A>
inline constexpr bool is_type<A, A> = true;

// Two float8 values, by one instruction to float16 from sm_89 on, which holds them exactly.
template <class T, class S>
__device__ __forceinline__ Pair<T> widen_float8(uint16_t codes) {
  S both[2];
  memcpy(both, &codes, 2);
#if defined(__CUDA_FP8_H__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint32_t halves;
  if constexpr (is_type<S, __nv_fp8_e4m3>) asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(codes));
  else asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(codes));
  if constexpr (short_fraction<T>) {
    float low, high;
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }" : "=f"(low), "=f"(high) : "r"(halves));
    halves = pack_bf16(low, high);
  }
  return Pair<T>{halves};
#else
  return make_pair(store_as<T>(load_as(both[0])), store_as<T>(load_as(both[1])));
#endif
}

// V neighbours as words of memory: taken out of bytes one by one they would cost more than their arithmetic.
template <class S, int V>
struct Raw {
  static constexpr int WORD = V * (int)sizeof(S) < 4 ? V * (int)sizeof(S) : 4, WORDS = V * (int)sizeof(S) / WORD;
  uint32_t words[WORDS];
  __device__ Pack<S, V> pack() const {
    Pack<S, V> values;
#pragma unroll
    for (int i = 0; i < WORDS; i++) memcpy(reinterpret_cast<unsigned char*>(&values) + i * WORD, words + i, WORD);
    return values;
  }
};

// Neighbours 2 p and 2 p + 1, as T holds them.
template <class T, class S, int V>
__device__ __forceinline__ Pair<T> pair_at(const Raw<S, V>& raw, int p) {
  if constexpr (is_type<S, T>) {
    return Pair<T>{raw.words[p]};
  } else if constexpr (is_type<S, int8_t>) {
    return widen_bytes<T>(__byte_perm(raw.words[p / 2], 0, p % 2 == 0 ? 0x4140 : 0x4342));
  } else {
    static_assert(sizeof(S) == 1, "a narrow type");
    return widen_float8<T, S>((uint16_t)(raw.words[p / 2] >> (p % 2 * 16)));
  }
}
// Of 8 neighbours of four bits the pairs are (0, 4), (1, 5), (2, 6), (3, 7): so one shift and one mask bring both.
template <class T, bool HIGH_FIRST, int BYTES>
__device__ __forceinline__ Pair<T> nibbles_at(const Raw<uint8_t, BYTES>& raw, int p) {
  static_assert(BYTES % 4 == 0, "whole words");
  return widen_nibbles<T>(raw.words[p / 4] >> 4 * (HIGH_FIRST ? p % 4 ^ 1 : p % 4));
}

// A thread's own places in shared memory, 16 bytes each and `pitch` bytes apart, hold the neighbours of one step one after the other. So many places hold V of them:
template <int V, class T>
inline constexpr int copied_places = (V * (int)sizeof(T) + 15) / 16;

// Pack number `i` of a step, V neighbours RUN elements apart, on its way there: by `cp.async` where they are dense and aligned, else by way of registers. Zeros where
// they are not `there`: nothing is read then, but `p` must still be aligned.
template <int V, int64_t RUN, bool WHOLE, class T>
__device__ __forceinline__ void copy_pack(unsigned char* to, int pitch, int i, const T* p, bool there) {
  constexpr int BYTES = V * (int)sizeof(T), PIECE = BYTES < 16 ? BYTES : 16;
  to += i * BYTES / 16 * pitch + i * BYTES % 16;
  if constexpr (RUN == 1 && WHOLE && PIECE >= 4) {
#pragma unroll
    for (int j = 0; j < BYTES / PIECE; j++) copy_async<PIECE>(to + j * pitch, reinterpret_cast<const unsigned char*>(p) + j * PIECE, there);
  } else {
    Pack<T, V> values{};
    if (there) values = read<V, RUN, WHOLE>(p);
#pragma unroll
    for (int j = 0; j < BYTES / PIECE; j++) store_pack(to + j * pitch, load_pack<PIECE>(reinterpret_cast<const unsigned char*>(&values) + j * PIECE));
  }
}
template <int V, class T>
__device__ __forceinline__ Raw<T, V> copied_pack(const unsigned char* from, int pitch, int i) {
  constexpr int BYTES = V * (int)sizeof(T), PIECE = BYTES < 16 ? BYTES : 16, WORD = Raw<T, V>::WORD, EACH = PIECE / WORD;
  from += i * BYTES / 16 * pitch + i * BYTES % 16;
  Raw<T, V> raw{};
  if constexpr (WORD == 4) {
#pragma unroll
    for (int j = 0; j < BYTES / PIECE; j++) {
      const Pack<uint32_t, EACH> piece = load_pack<EACH>(reinterpret_cast<const uint32_t*>(from + j * pitch));
#pragma unroll
      for (int w = 0; w < EACH; w++) raw.words[j * EACH + w] = piece.at[w];
    }
  } else {
    memcpy(raw.words, from, BYTES);
  }
  return raw;
}

}  // namespace ws
#endif
