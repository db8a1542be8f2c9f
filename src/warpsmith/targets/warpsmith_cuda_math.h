// Scalar float32 mathematics of CUDA units, under the names that `warpsmith_simd.h` gives it on the CPU, so that one
// expression can be written for both. Errors are those of the CUDA math library (at most 2 ulp, pow 4) unless stated.
// Where torch defines an operation by cases (NaN, infinities, thresholds), these follow torch.
#ifndef WARPSMITH_CUDA_MATH_H
#define WARPSMITH_CUDA_MATH_H
#include <math.h>
#include "warpsmith_cuda.h"
#define WS_FN __device__ __forceinline__

namespace ws {

constexpr float infinity = __builtin_huge_valf();
constexpr float nan = __builtin_nanf("");

// One element to and from float.
template <class T>
WS_FN float load_one(const T* p) { return load_as(*p); }
template <class T>
WS_FN void store_one(T* p, float x) { *p = store_as<T>(x); }

WS_FN int32_t as_int(float x) {
  int32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}
WS_FN float select(bool m, float a, float b) { return m ? a : b; }
WS_FN int64_t select(bool m, int64_t a, int64_t b) { return m ? a : b; }
WS_FN bool to_mask(bool m) { return m; }
WS_FN int64_t to_long(int64_t v) { return v; }
WS_FN int64_t to_long(float v) { return (int64_t)v; }
WS_FN int32_t to_int(float v) { return (int32_t)v; }  // towards zero
WS_FN float to_float(int64_t v) { return (float)v; }
WS_FN int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
WS_FN int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }
// An integer as type T holds it: the bits beyond are cut off.
template <class T>
WS_FN int64_t wrapped(int64_t v) { return (T)v; }
// Shifts as torch has them: by less than 0 or more than there are bits, all of them.
WS_FN int64_t shift_right(int64_t a, int64_t b) { return a >> (b < 0 || b > 63 ? 63 : b); }
WS_FN int64_t shift_left(int64_t a, int64_t b) { return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b); }
// Quotients and remainders of integers, towards zero and towards minus infinity; by 0: 0, where torch raises.
WS_FN int64_t trunc_div(int64_t a, int64_t b) {
  return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
WS_FN int64_t floor_mod(int64_t a, int64_t b) {
  const int64_t r = b == 0 || b == -1 ? 0 : a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
WS_FN int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = trunc_div(a, b);
  return b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

// a - b of a rounded a: no fused multiply-add takes the product that made it. x - max(x) is 0 at the maximum, however large.
WS_FN float sub(float a, float b) { return __fsub_rn(a, b); }
WS_FN float min(float a, float b) { return a < b ? a : b; }
WS_FN float max(float a, float b) { return a > b ? a : b; }
#ifdef __CUDA_ARCH__
WS_FN float max_nan(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
WS_FN float min_nan(float a, float b) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
WS_FN float exp2_approximate(float x) {  // 2 ulp; 0 below 2^-126
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
// For terms of a sum, in two instructions where expf is eight: good to 2 ulp and 2^-23 |x| of the result; 0 below 2^-126.
WS_FN float exp_term(float x) { return exp2_approximate(x * 1.4426950f); }
// In six to 2 ulp and |x| / 16 more: 2^t (1 + c), where c is by how much x exceeds t ln 2, since t is rounded.
WS_FN float exp_nonpos(float x) {
  const float y = max_nan(x, -150.0f), t = y * 1.4426950f, r = exp2_approximate(t);
  return fmaf(r, fmaf(-t, 0.69314718f, y), r);
}
#else
WS_FN float exp2_approximate(float x) { return exp2f(x); }
WS_FN float exp_term(float x) { return expf(x); }
WS_FN float exp_nonpos(float x) { return expf(x); }
WS_FN float max_nan(float a, float b) { return a > b || a != a ? a : b; }
WS_FN float min_nan(float a, float b) { return a < b || a != a ? a : b; }
#endif
WS_FN float clamp(float x, float lo, float hi) { return x < lo ? lo : x > hi ? hi : x; }  // NaN stays NaN
WS_FN float relu(float x) { return x < 0.0f ? 0.0f : x; }
WS_FN float abs(float x) { return fabsf(x); }
WS_FN float copysign(float x, float sign) { return copysignf(x, sign); }
WS_FN float floor(float x) { return floorf(x); }
WS_FN float ceil(float x) { return ceilf(x); }
WS_FN float trunc(float x) { return truncf(x); }
WS_FN float round_even(float x) { return rintf(x); }

WS_FN float sqrt(float x) { return sqrtf(x); }
WS_FN float rsqrt(float x) { return rsqrtf(x); }
WS_FN float exp(float x) { return expf(x); }
WS_FN float exp2(float x) { return exp2f(x); }
WS_FN float expm1(float x) { return expm1f(x); }
WS_FN float log(float x) { return logf(x); }
WS_FN float log2(float x) { return log2f(x); }
WS_FN float log10(float x) { return log10f(x); }
WS_FN float log1p(float x) { return log1pf(x); }
WS_FN float pow(float x, float y) { return powf(x, y); }
WS_FN float erf(float x) { return erff(x); }
WS_FN float erfc(float x) { return erfcf(x); }
WS_FN float sin(float x) { return sinf(x); }
WS_FN float cos(float x) { return cosf(x); }
WS_FN float tan(float x) { return tanf(x); }
WS_FN float asin(float x) { return asinf(x); }
WS_FN float acos(float x) { return acosf(x); }
WS_FN float atan(float x) { return atanf(x); }
WS_FN float atan2(float y, float x) { return atan2f(y, x); }
WS_FN float sinh(float x) { return sinhf(x); }
WS_FN float cosh(float x) { return coshf(x); }
WS_FN float tanh(float x) { return tanhf(x); }
WS_FN float asinh(float x) { return asinhf(x); }
WS_FN float acosh(float x) { return acoshf(x); }
WS_FN float atanh(float x) { return atanhf(x); }
WS_FN float fmod(float a, float b) { return fmodf(a, b); }
WS_FN float remainder(float a, float b) {  // with the sign of b, as Python's %
  const float r = fmodf(a, b);
  return r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r;
}
WS_FN float floor_divide(float a, float b) {  // as torch: from the exact remainder
  if (b == 0.0f) return a / b;
  const float r = fmodf(a, b);
  float q = (a - r) / b;
  if (r != 0.0f && (b < 0.0f) != (r < 0.0f)) q -= 1.0f;
  if (q == 0.0f) return copysignf(0.0f, a / b);
  const float low = floorf(q);
  return q - low > 0.5f ? low + 1.0f : low;
}
template <int Power>
WS_FN float powi(float x) {  // by repeated squaring
  if constexpr (Power < 0) return 1.0f / powi<-Power>(x);
  else if constexpr (Power == 0) return 1.0f;
  else if constexpr (Power == 1) return x;
  else if constexpr (Power % 2 == 0) return powi<Power / 2>(x * x);
  else return powi<Power / 2>(x * x) * x;
}

WS_FN float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
WS_FN float silu(float x) { return x / (1.0f + expf(-x)); }
WS_FN float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }
// For results in half precision, in 15 operations without a branch where gelu has 27: relu(x) - |x| Phi(-|x|), where the tail Phi is e^(-x^2 / 2) times a polynomial in
// 1 / (1 + 0.27 |x|), fitted up to 14. Good to 2e-6 of the result, in the tail as well, and |x|^2 2^-24 more.
WS_FN float gelu_half(float x) {
  const float a = fminf(fabsf(x), 14.0f), t = __fdividef(1.0f, fmaf(0.27f, a, 1.0f));
  float r = fmaf(-0.060751967f, t, 0.15819882f);
  r = fmaf(r, t, -0.023797126f);
  r = fmaf(r, t, 0.11730811f);
  r = fmaf(r, t, 0.09292123f);
  r = fmaf(r, t, 0.10843284f);
  r = fmaf(r, t, 0.1076875f);
  return fmaf(-a * (r * t), exp2_approximate(a * a * -0.72134752f), max_nan(x, 0.0f));
}
WS_FN float gelu_tanh(float x) {  // x sigmoid(2 u) = x (1 + tanh(u)) / 2
  const float u = 0.79788456f * (x + 0.044715f * x * x * x);
  return x / (1.0f + expf(-2.0f * u));
}
WS_FN float softplus(float x, float beta = 1.0f, float threshold = 20.0f) {
  return x * beta > threshold ? x : log1pf(expf(x * beta)) / beta;
}
WS_FN float mish(float x) {  // x tanh(softplus(x)) = x n / (n + 2) with n = e^x (e^x + 2): no cancellation
  if (x > 20.0f) return x;
  const float e = expf(x), n = e * (e + 2.0f);
  return x * (n / (n + 2.0f));
}
WS_FN float log_sigmoid(float x) { return min_nan(x, 0.0f) - log1pf(expf(-fabsf(x))); }

}  // namespace ws
#undef WS_FN
#endif
