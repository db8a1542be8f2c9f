//! Arguments and epilogues of the GEMM kernels. An epilogue says what becomes of a sum at row m, column n before it is rounded
//! and stored: a struct of kernel arguments with a call operator. Coordinates may lie outside of the matrix; the result is
//! dropped then.
#pragma once
#include "round_pair.cuh"

namespace ws::sm90 {

template <class E>
struct GemmArguments {
  int m, n, k;
  int group, along_n;  // raster
  int parts;           // of K; in a cluster along K, its size
  const void *a, *b;   // not read where tensor maps stand for them
  void* result;
  int64_t a_pitch, b_pitch, pitch;  // elements from row to row as stored
  int* counters;  // split-K by semaphore: one for each tile and group that stores, zero before and after a launch
  float* partial;  // and the sums of each part of a tile
  E epilogue;
};

// Stores columns n, n + 1 of row m that are inside.
template <class Out, class E>
__device__ __forceinline__ void store_pair(const GemmArguments<E>& args, int m, int n, float low, float high) {
  if (m >= args.m || n >= args.n) return;
  Out* const to = static_cast<Out*>(args.result) + m * args.pitch + n;
  if (n + 1 < args.n && args.pitch % 2 == 0) {
    if constexpr (sizeof(Out) == 4) *reinterpret_cast<float2*>(to) = make_float2(low, high);
    else *reinterpret_cast<uint32_t*>(to) = round_pair(low, high, Out());
  } else {
    *to = (Out)low;
    if (n + 1 < args.n) to[1] = (Out)high;
  }
}

struct PlainEpilogue {
  __device__ __forceinline__ float operator()(float sum, int, int) const { return sum; }
};

struct Identity {
  static __device__ __forceinline__ float apply(float x) { return x; }
};
struct Relu {
  static __device__ __forceinline__ float apply(float x) { return fmaxf(x, 0.0f); }
};
struct Gelu {
  static __device__ __forceinline__ float apply(float x) { return 0.5f * x * erfcf(x * -0.70710678f); }
};
struct Silu {
  static __device__ __forceinline__ float apply(float x) { return x / (1.0f + __expf(-x)); }
};

// activation(alpha * sum + bias[n]) + beta * residual[m, n]; a null pointer is left out.
template <class T, class Activation = Identity>
struct LinearEpilogue {
  const T* bias;
  const T* residual;
  int64_t residual_pitch;
  float alpha, beta;
  int m_end, n_end;
  __device__ __forceinline__ float operator()(float sum, int m, int n) const {
    const bool inside = m < m_end && n < n_end;
    float value = alpha * sum;
    if (bias && inside) value += (float)bias[n];
    value = Activation::apply(value);
    if (residual && inside) value += beta * (float)residual[m * residual_pitch + n];
    return value;
  }
};

}  // namespace ws::sm90
