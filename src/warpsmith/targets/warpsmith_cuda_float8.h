// float8 as torch has it, one element: a float rounded to nearest even, and back, which is exact; and floats as halves hold them.
//
// e4m3fn: 4 bits of exponent, no infinities; what is too large becomes the largest, 448. e5m2: the upper byte of an IEEE
// half. A NaN keeps its sign. One instruction each way from sm_89 on; elsewhere arithmetic on the bits.
#ifndef WARPSMITH_CUDA_FLOAT8_H
#define WARPSMITH_CUDA_FLOAT8_H
#include <stdint.h>
#include <string.h>

namespace ws {

__device__ __forceinline__ uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}
__device__ __forceinline__ float from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

__device__ __forceinline__ uint32_t narrow_e4m3(float x) {
  const uint32_t sign = bits_of(x) >> 24 & 0x80;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint16_t code;  // of a NaN without its sign
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(code) : "f"(0.0f), "f"(x));
#else
  const uint32_t magnitude = bits_of(x) & 0x7fffffff;
  uint32_t code = (magnitude - (120 << 23) + 0x7ffff + (magnitude >> 20 & 1)) >> 20;
  if (magnitude < 121u << 23) code = bits_of(from_bits(magnitude) + 16384.0f) - 0x46800000;  // the adder rounds
  if (magnitude > 0x43e80000) code = magnitude > 0x7f800000 ? 0x7f : 0x7e;  // above 464
#endif
  return code | sign;
}
__device__ __forceinline__ float widen_e4m3(uint32_t code) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint32_t halves;
  float x;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"((uint16_t)code));
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(x) : "r"(halves));
#else
  const uint32_t magnitude = code & 0x7f;
  const float x = magnitude == 0x7f ? from_bits(0x7ff00000) : from_bits(magnitude << 20) * 0x1p120f;
#endif
  return from_bits(bits_of(x) | (code & 0x80) << 24);
}
__device__ __forceinline__ uint32_t narrow_e5m2(float x) {
  const uint32_t sign = bits_of(x) >> 24 & 0x80, magnitude = bits_of(x) & 0x7fffffff;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint16_t code;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(code) : "f"(0.0f), "f"(x));
#else
  uint32_t code = (magnitude - (112 << 23) + 0xfffff + (magnitude >> 21 & 1)) >> 21;
  if (magnitude < 113u << 23) code = bits_of(from_bits(magnitude) + 128.0f) - 0x43000000;
#endif
  if (magnitude >= 0x47700000) code = magnitude > 0x7f800000 ? 0x7f : 0x7c;  // 61440 and more
  return (code & 0x7f) | sign;
}
__device__ __forceinline__ float widen_e5m2(uint32_t code) {
#ifdef __CUDA_ARCH__
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((uint16_t)(code << 8)));
#else
  const uint32_t magnitude = code & 0x7f, special = magnitude << 21 | 0x7f800000 | (magnitude > 0x7c ? 0x400000 : 0);
  const float x = magnitude >= 0x7c ? from_bits(special) : from_bits(magnitude << 21) * 0x1p112f;
#endif
  return from_bits(bits_of(x) | (code & 0x80) << 24);
}
__device__ __forceinline__ float round_bf16(float x) {
  const uint32_t bits = bits_of(x);
  return x != x ? x : from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}
__device__ __forceinline__ float round_f16(float x) {
#ifdef __CUDA_ARCH__
  asm("{ .reg .b16 half; cvt.rn.f16.f32 half, %1; cvt.f32.f16 %0, half; }" : "=f"(x) : "f"(x));
  return x;
#else
  return (float)(_Float16)x;
#endif
}
__device__ __forceinline__ float round_e4m3(float x) { return widen_e4m3(narrow_e4m3(x)); }
__device__ __forceinline__ float round_e5m2(float x) { return widen_e5m2(narrow_e5m2(x)); }

}  // namespace ws
#endif
