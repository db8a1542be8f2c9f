// Small parts of CUDA units: conversions, 16-byte loads and stores, reductions, online softmax.
//
// Include it after task.h (or cuda_bf16.h and cuda_fp16.h), so that it knows the half types in use. Reductions
// want every thread of the warp or block to take part and give every one the same result. Blocks are
// one-dimensional, a multiple of 32 threads and at most 1024.
#ifndef WARPSMITH_CUDA_H
#define WARPSMITH_CUDA_H
#include <stdint.h>
#ifndef WARPSMITH_NO_HALVES  // the target's word for a unit that names none: reading these takes longer than most units
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif
#include "warpsmith_cuda_float8.h"

namespace ws {

constexpr int WARP = 32;
constexpr unsigned FULL = 0xffffffffu;

template <class A, class B>
__host__ __device__ constexpr auto ceil_div(A a, B b) {
  return (a + b - 1) / b;
}

// Element types to float, and back, rounded to nearest even.
__device__ __forceinline__ float load_as(float x) { return x; }

template <class T>
__device__ __forceinline__ T store_as(float x) {
  return static_cast<T>(x);
}
#if !defined(WARPSMITH_NO_HALVES) || defined(__CUDA_FP16_H__)
__device__ __forceinline__ float load_as(__half x) { return __half2float(x); }
template <>
__device__ __forceinline__ __half store_as<__half>(float x) {
  return __float2half_rn(x);
}
#endif
#if !defined(WARPSMITH_NO_HALVES) || defined(__CUDA_BF16_H__)
__device__ __forceinline__ float load_as(__nv_bfloat16 x) { return __bfloat162float(x); }
template <>
__device__ __forceinline__ __nv_bfloat16 store_as<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
#endif

#ifdef __CUDA_FP8_H__
__device__ __forceinline__ float load_as(__nv_fp8_e4m3 x) { return widen_e4m3(x.__x); }
__device__ __forceinline__ float load_as(__nv_fp8_e5m2 x) { return widen_e5m2(x.__x); }
template <>
__device__ __forceinline__ __nv_fp8_e4m3 store_as<__nv_fp8_e4m3>(float x) {
  __nv_fp8_e4m3 narrow;
  narrow.__x = (uint8_t)narrow_e4m3(x);
  return narrow;
}
template <>
__device__ __forceinline__ __nv_fp8_e5m2 store_as<__nv_fp8_e5m2>(float x) {
  __nv_fp8_e5m2 narrow;
  narrow.__x = (uint8_t)narrow_e5m2(x);
  return narrow;
}
#endif

// N neighbouring elements moved by one instruction where N * sizeof(T) is 4, 8 or 16. The address must be a
// multiple of that: whole rows are when their length is.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};
template <class T>
constexpr int PER_16_BYTES = 16 / sizeof(T);

template <int N, class T>
__device__ __forceinline__ Pack<T, N> load_pack(const T* p) {
  return *reinterpret_cast<const Pack<T, N>*>(p);
}
template <int N, class T>
__device__ __forceinline__ void store_pack(T* p, const Pack<T, N>& values) {
  *reinterpret_cast<Pack<T, N>*>(p) = values;
}

struct Sum {
  template <class T>
  __device__ static T of(T a, T b) {
    return a + b;
  }
  template <class T>
  __device__ static T none() {
    return T(0);
  }
};
// As torch has it: NaN wins.
struct Max {
  template <class T>
  __device__ static T of(T a, T b) {
    return a > b || a != a ? a : b;
  }
  template <class T>
  __device__ static T none() {
    return -T(INFINITY);
  }
};

template <class Op, class T>
__device__ __forceinline__ T warp_reduce(T x) {
#pragma unroll
  for (int step = WARP / 2; step > 0; step /= 2) x = Op::of(x, __shfl_xor_sync(FULL, x, step));
  return x;
}

// Two barriers; may be called again at once.
template <class Op, class T>
__device__ __forceinline__ T block_reduce(T x) {
  __shared__ T partial[WARP];
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
  x = warp_reduce<Op>(x);
  if (warps == 1) return x;
  if (lane == 0) partial[warp] = x;
  __syncthreads();
  x = warp_reduce<Op>(lane < warps ? partial[lane] : Op::template none<T>());
  __syncthreads();
  return x;
}

template <class T>
__device__ __forceinline__ T warp_sum(T x) {
  return warp_reduce<Sum>(x);
}
template <class T>
__device__ __forceinline__ T warp_max(T x) {
  return warp_reduce<Max>(x);
}
template <class T>
__device__ __forceinline__ T block_sum(T x) {
  return block_reduce<Sum>(x);
}
template <class T>
__device__ __forceinline__ T block_max(T x) {
  return block_reduce<Max>(x);
}

// The largest value so far and the sum of exp(value - largest), in one pass (Milakov and Gimelshein,
// https://arxiv.org/abs/1805.02867). Rows of minus infinity only have sum 0, as nothing was added.
struct OnlineSoftmax {
  float max = -INFINITY, sum = 0.0f;

  __device__ __forceinline__ void add(float x) { merge({x, 1.0f}); }

  __device__ __forceinline__ void merge(OnlineSoftmax other) {
    const float top = Max::of(max, other.max);
    if (top == -INFINITY) return;
    sum = sum * expf(max - top) + other.sum * expf(other.max - top);
    max = top;
  }

  __device__ __forceinline__ void warp_merge() {
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2)
      merge({__shfl_xor_sync(FULL, max, step), __shfl_xor_sync(FULL, sum, step)});
  }

  __device__ __forceinline__ void block_merge() {
    const float top = block_max(max);
    sum = block_sum(top == -INFINITY ? 0.0f : sum * expf(max - top));
    max = top;
  }
};

}  // namespace ws
#endif
