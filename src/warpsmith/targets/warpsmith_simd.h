// warpsmith_simd.h: vectors, accurate fp32 mathematics and thread partitioning for CPU units.
//
// In: GCC/Clang vector extensions only (no <immintrin.h>: parsing it costs more than compiling a unit). Out: namespace `ws`.
// Every function below works on a vector `vf` (VEC floats) and on a scalar `float` alike, under one name; what is not called
// costs nothing. VEC may be defined before inclusion; by default it is the widest vector of the instruction set.
// Works as AVX-512, AVX2, SSE2, NEON or plain scalar code: wider vectors than the machine has are split by the compiler.
// Needs -fno-math-errno -fno-trapping-math; must NOT be compiled with -ffast-math (NaN, inf and compensated sums are meant).
// Accuracy: the worst error in ulp (fp32 units in the last place, against exact) stands beside each function; tested.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifndef VEC
#if defined(__AVX512F__)
#define VEC 16
#elif defined(__AVX__)
#define VEC 8
#else
#define VEC 4
#endif
#endif

static_assert(VEC == 4 || VEC == 8 || VEC == 16, "VEC must be 4, 8 or 16");

#if defined(__GNUC__) && !defined(__clang__) && !defined(WS_PORTABLE)  // WS_PORTABLE: no x86 builtins (tests)
#define WS_GCC 1
#pragma GCC diagnostic ignored "-Wpsabi"  // every function that passes a vector is inlined: no ABI is involved
#endif
#ifdef __has_builtin
#define WS_HAS(x) __has_builtin(x)
#else
#define WS_HAS(x) 0
#endif
#define WS_FN static inline __attribute__((always_inline))
#define WS_LIKELY(x) __builtin_expect(!!(x), 1)

#ifdef _OPENMP
extern "C" int omp_get_thread_num(void) noexcept;
extern "C" int omp_get_num_threads(void) noexcept;
#endif

struct ws_bf16;  // defined by task.h: one uint16_t `bits`
struct ws_f16;
struct ws_e4m3;  // one uint8_t `bits`
struct ws_e5m2;

namespace ws {

// ---------------------------------------------------------------------------------------------------------------- types
typedef float vf __attribute__((vector_size(4 * VEC)));
typedef int32_t vi __attribute__((vector_size(4 * VEC)));
typedef uint32_t vu __attribute__((vector_size(4 * VEC)));
typedef vi vm;  // a mask: each lane 0 or -1, what a comparison of two vf yields
typedef double vd __attribute__((vector_size(8 * VEC)));
typedef int64_t vl __attribute__((vector_size(8 * VEC)));
typedef uint16_t vh __attribute__((vector_size(2 * VEC)));
typedef uint8_t vb __attribute__((vector_size(VEC)));
// The same, as found in memory: any alignment, and allowed to alias.
typedef vf vf_mem __attribute__((aligned(4), may_alias));
typedef vi vi_mem __attribute__((aligned(4), may_alias));
typedef vl vl_mem __attribute__((aligned(8), may_alias));
typedef vd vd_mem __attribute__((aligned(8), may_alias));
typedef vh vh_mem __attribute__((aligned(2), may_alias));
typedef vb vb_mem __attribute__((aligned(1), may_alias));

// What goes with a value type: its integer twin and its mask.
template <class Value> struct lanes;
template <> struct lanes<float> {
    typedef int32_t integer;
    typedef bool mask;
    static constexpr int count = 1;
    static constexpr bool native_scale = false;
    static constexpr float exp_floor = -87.9f;
};
template <> struct lanes<vf> {
    typedef vi integer;
    typedef vm mask;
    static constexpr int count = VEC;
#if defined(WS_GCC) && defined(__AVX512F__) && VEC == 16
    static constexpr bool native_scale = true;  // one instruction for x * 2^n
#elif defined(WS_GCC) && defined(__AVX512VL__) && VEC == 8
    static constexpr bool native_scale = true;
#else
    static constexpr bool native_scale = false;
#endif
    static constexpr float exp_floor = native_scale ? -104.0f : -87.9f;  // from here on exp_nonpos is 0 (n <= -127)
};

// Floats in a register of the machine, and vectors of VEC floats that its registers hold together.
#if defined(__AVX512VL__)
constexpr int widest = 16, registers = 32;
#elif defined(__aarch64__)
constexpr int widest = 4, registers = VEC > 4 ? 128 / VEC : 32;
#elif defined(__AVX__)
constexpr int widest = 8, registers = VEC > 8 ? 8 : 16;
#else
constexpr int widest = 4, registers = VEC > 4 ? 64 / VEC : 16;
#endif

constexpr float infinity = __builtin_inff();
constexpr float nan = __builtin_nanf("");
constexpr float lowest = -3.402823466e+38f;

// ---------------------------------------------------------------------------------------------- bits, splat, select, any
WS_FN vi as_int(vf v) { return (vi)v; }
WS_FN vf as_float(vi v) { return (vf)v; }
WS_FN int32_t as_int(float x) { int32_t r; __builtin_memcpy(&r, &x, 4); return r; }
WS_FN float as_float(int32_t x) { float r; __builtin_memcpy(&r, &x, 4); return r; }
WS_FN vf to_float(vi v) { return __builtin_convertvector(v, vf); }
WS_FN float to_float(int32_t v) { return (float)v; }
WS_FN vi to_int(vf v) { return __builtin_convertvector(v, vi); }  // towards zero
WS_FN int32_t to_int(float v) { return (int32_t)v; }

template <class Value = vf> WS_FN Value splat(float x) { return Value{} + x; }
template <> inline __attribute__((always_inline)) vf splat<vf>(float x) { return x - vf{}; }  // x - 0 keeps the sign of -0.0
template <> inline __attribute__((always_inline)) float splat<float>(float x) { return x; }
WS_FN vi splat_int(int32_t x) { return x - vi{}; }
WS_FN vi iota() {
    vi r{};
    for (int i = 0; i < VEC; ++i) r[i] = i;
    return r;
}

WS_FN vf select(vm m, vf a, vf b) { return m ? a : b; }
WS_FN vi select(vm m, vi a, vi b) { return m ? a : b; }
WS_FN float select(bool m, float a, float b) { return m ? a : b; }
WS_FN int32_t select(bool m, int32_t a, int32_t b) { return m ? a : b; }

// int64 in lanes (vl, two or more registers): what integers of any width in memory are widened to.
WS_FN vl splat_long(int64_t x) { return x - vl{}; }
WS_FN vm to_mask(vl m) { return __builtin_convertvector(m, vi); }  // what a comparison of two vl yields, as a mask
WS_FN bool to_mask(bool m) { return m; }
WS_FN vl to_long(vl v) { return v; }
WS_FN vl to_long(vi v) { return __builtin_convertvector(v, vl); }
WS_FN vl to_long(vf v) { return __builtin_convertvector(v, vl); }  // towards zero
WS_FN int64_t to_long(int64_t v) { return v; }
WS_FN int64_t to_long(float v) { return (int64_t)v; }
WS_FN vf to_float(vl v) { return __builtin_convertvector(v, vf); }  // rounds once
WS_FN float to_float(int64_t v) { return (float)v; }
WS_FN vl select(vm m, vl a, vl b) { return __builtin_convertvector(m, vl) ? a : b; }
WS_FN int64_t select(bool m, int64_t a, int64_t b) { return m ? a : b; }
WS_FN vl lesser(vl a, vl b) { return a < b ? a : b; }
WS_FN vl greater(vl a, vl b) { return a > b ? a : b; }
WS_FN int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
WS_FN int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }
// Quotients and remainders of integers, towards zero and towards minus infinity; by 0: 0, where torch raises.
WS_FN int64_t trunc_div(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b; }
WS_FN int64_t floor_mod(int64_t a, int64_t b) {
    int64_t r = b == 0 || b == -1 ? 0 : a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
WS_FN int64_t floor_div(int64_t a, int64_t b) {
    int64_t q = trunc_div(a, b);
    return b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
template <class Fn> WS_FN vl each_long(vl a, vl b, Fn f) {
    for (int i = 0; i < VEC; ++i) a[i] = f(a[i], b[i]);
    return a;
}
WS_FN vl trunc_div(vl a, vl b) { return each_long(a, b, [](int64_t x, int64_t y) { return trunc_div(x, y); }); }
WS_FN vl floor_mod(vl a, vl b) { return each_long(a, b, [](int64_t x, int64_t y) { return floor_mod(x, y); }); }
WS_FN vl floor_div(vl a, vl b) { return each_long(a, b, [](int64_t x, int64_t y) { return floor_div(x, y); }); }

// An integer as type Element holds it: the bits beyond are cut off.
template <class Element, class Value> WS_FN Value wrapped(Value v) {
    constexpr int cut = 8 * (int)(sizeof(v[0]) - sizeof(Element));
    if constexpr ((Element)-1 > 0) return v & (((decltype(v[0] + 0))1 << 8 * sizeof(Element)) - 1);
    else return v << cut >> cut;
}
template <class Element> WS_FN int64_t wrapped(int64_t v) { return (Element)v; }
template <class Element> WS_FN int64_t wrapped(int32_t v) { return (Element)v; }
// Shifts as torch has them: by less than 0 or more than there are bits, all of them.
WS_FN int64_t shift_right(int64_t a, int64_t b) { return a >> (b < 0 || b > 63 ? 63 : b); }
WS_FN int64_t shift_left(int64_t a, int64_t b) { return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b); }
WS_FN vl shift_right(vl a, vl b) { return a >> (((b < 0) | (b > 63)) ? splat_long(63) : b); }
WS_FN vl shift_left(vl a, vl b) { return ((b < 0) | (b > 63)) ? vl{} : a << (b & 63); }

// a - b of a rounded a: no fused multiply-add takes the product that made it. x - max(x) is 0 at the maximum, however large.
template <class A, class B> WS_FN auto sub(A a, B b) {
#if WS_HAS(__builtin_assoc_barrier)
    return __builtin_assoc_barrier(a) - b;
#else
    __asm__("" : "+m"(a));  // through memory: a vector may take several registers
    return a - b;
#endif
}

WS_FN bool any(bool m) { return m; }
WS_FN bool any(vm m) {  // is any lane of a mask set?
    int64_t r = 0;
    typedef int64_t words __attribute__((vector_size(4 * VEC)));
    for (int i = 0; i < VEC / 2; ++i) r |= ((words)m)[i];
    return r != 0;
}
WS_FN bool isnan(float x) { return x != x; }
WS_FN vm isnan(vf x) { return x != x; }

// --------------------------------------------------------------------------------------------------------- loads, stores
// Unaligned. The `_n` forms touch only the first n lanes (0 <= n <= VEC) of memory; the other lanes read as `fill`.
WS_FN vf load(const float* p) { return *(const vf_mem*)p; }
WS_FN void store(float* p, vf v) { *(vf_mem*)p = v; }
// A loaded vector with several uses: kept in its register, where GCC would take it from memory anew for each of them.
WS_FN vf held(vf v) {
#if defined(WS_GCC) && defined(__x86_64__)
    if constexpr (VEC <= widest) __asm__("" : "+v"(v));
#endif
    return v;
}
WS_FN vi load(const int32_t* p) { return *(const vi_mem*)p; }
WS_FN void store(int32_t* p, vi v) { *(vi_mem*)p = v; }

template <class Element, class Vector> WS_FN Vector load_lanes(const Element* p, int n, Element fill) {
    Element lane[VEC];
    for (int i = 0; i < VEC; ++i) lane[i] = fill;
    if (n > VEC) __builtin_unreachable();  // GCC thinks of it where lengths are constant, and warns
    for (int i = 0; i < n; ++i) lane[i] = p[i];
    Vector v;
    __builtin_memcpy(&v, lane, sizeof v);
    return v;
}
template <class Element, class Vector> WS_FN void store_lanes(Element* p, Vector v, int n) {
    Element lane[VEC];
    __builtin_memcpy(lane, &v, sizeof v);
    if (n > VEC) __builtin_unreachable();
    for (int i = 0; i < n; ++i) p[i] = lane[i];
}
WS_FN vf load_n(const float* p, int n, float fill = 0.0f) {
#if defined(WS_GCC) && defined(__AVX512F__) && VEC == 16
    return (vf)__builtin_ia32_loadups512_mask(p, splat(fill), (unsigned short)((1u << n) - 1u));
#elif defined(WS_GCC) && defined(__AVX__) && VEC == 8
    vm m = iota() < n;
    return select(m, (vf)__builtin_ia32_maskloadps256((const vf*)p, m), splat(fill));
#else
    return load_lanes<float, vf>(p, n, fill);
#endif
}
WS_FN void store_n(float* p, vf v, int n) {
#if defined(WS_GCC) && defined(__AVX512F__) && VEC == 16
    __builtin_ia32_storeups512_mask(p, v, (unsigned short)((1u << n) - 1u));
#elif defined(WS_GCC) && defined(__AVX__) && VEC == 8
    __builtin_ia32_maskstoreps256((vf*)p, iota() < n, v);
#else
    store_lanes<float, vf>(p, v, n);
#endif
}
WS_FN vi load_n(const int32_t* p, int n, int32_t fill = 0) { return load_lanes<int32_t, vi>(p, n, fill); }
WS_FN void store_n(int32_t* p, vi v, int n) { store_lanes<int32_t, vi>(p, v, n); }

// int64 in memory (indices), int32 in registers.
WS_FN vi load(const int64_t* p) { return __builtin_convertvector(*(const vl_mem*)p, vi); }
WS_FN void store(int64_t* p, vi v) { *(vl_mem*)p = __builtin_convertvector(v, vl); }
WS_FN vi load_n(const int64_t* p, int n, int64_t fill = 0) {
    return __builtin_convertvector(load_lanes<int64_t, vl>(p, n, fill), vi);
}
WS_FN void store_n(int64_t* p, vi v, int n) { store_lanes<int64_t, vl>(p, __builtin_convertvector(v, vl), n); }

// bool (one byte, 0 or 1) in memory, a mask in registers.
WS_FN vm widen_bool(vb b) { return __builtin_convertvector(b, vi) != 0; }
WS_FN vb narrow_bool(vm m) { return __builtin_convertvector(m & 1, vb); }
WS_FN vm load_bool(const bool* p) { return widen_bool(*(const vb_mem*)p); }
WS_FN void store_bool(bool* p, vm m) { *(vb_mem*)p = narrow_bool(m); }
WS_FN vm load_bool_n(const bool* p, int n) { return widen_bool(load_lanes<uint8_t, vb>((const uint8_t*)p, n, 0)); }
WS_FN void store_bool_n(bool* p, vm m, int n) { store_lanes<uint8_t, vb>((uint8_t*)p, narrow_bool(m), n); }

// bfloat16: the upper half of a float; rounds to nearest even, NaN stays NaN.
WS_FN vf widen_bf16(vh h) { return (vf)(__builtin_convertvector(h, vu) << 16); }
WS_FN vh narrow_bf16(vf v) {
    vu u = (vu)v;
    vu rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return __builtin_convertvector((vm)(v != v) ? vu{} + 0x7fc0u : rounded, vh);
}
// IEEE half precision. The portable forms move the exponent by a multiplication, so that denormals come out right.
WS_FN vf widen_f16(vh h) {
#if defined(WS_GCC) && defined(__AVX512F__) && VEC == 16
    typedef short v16hi __attribute__((vector_size(32)));
    return (vf)__builtin_ia32_vcvtph2ps512_mask((v16hi)h, vf{}, 0xffff, 4);
#elif defined(WS_GCC) && defined(__F16C__) && VEC == 8
    typedef short v8hi __attribute__((vector_size(16)));
    return (vf)__builtin_ia32_vcvtph2ps256((v8hi)h);
#else
    vu u = __builtin_convertvector(h, vu);
    vu magnitude = (u & 0x7fffu) << 13;
    vf scaled = (vf)magnitude * 0x1p112f;
    vu special = magnitude >= (0x7c00u << 13) ? magnitude | 0x7f800000u : (vu)scaled;
    return (vf)(special | ((u & 0x8000u) << 16));
#endif
}
WS_FN vh narrow_f16(vf v) {
#if defined(WS_GCC) && defined(__AVX512F__) && VEC == 16
    typedef short v16hi __attribute__((vector_size(32)));
    return (vh)__builtin_ia32_vcvtps2ph512_mask(v, 0, v16hi{}, 0xffff);
#elif defined(WS_GCC) && defined(__F16C__) && VEC == 8
    return (vh)__builtin_ia32_vcvtps2ph256(v, 0);
#else
    vu u = (vu)v;
    vu sign = (u >> 16) & 0x8000u;
    vu magnitude = u & 0x7fffffffu;
    vu normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
    // Below 2^-14 the float adder does the rounding: 0.5 has an ulp of 2^-24, the spacing of half denormals.
    vu denormal = (vu)((vf)magnitude + 0.5f) - 0x3f000000u;
    vu r = magnitude < 0x38800000u ? denormal : normal;
    r = magnitude >= 0x477ff000u ? vu{} + 0x7c00u : r;
    r = magnitude > 0x7f800000u ? vu{} + 0x7e00u : r;
    return __builtin_convertvector(r | sign, vh);
#endif
}
WS_FN vf load(const ws_bf16* p) { return widen_bf16(*(const vh_mem*)p); }
WS_FN void store(ws_bf16* p, vf v) { *(vh_mem*)p = narrow_bf16(v); }
WS_FN vf load(const ws_f16* p) { return widen_f16(*(const vh_mem*)p); }
WS_FN void store(ws_f16* p, vf v) { *(vh_mem*)p = narrow_f16(v); }
WS_FN vf load_n(const ws_bf16* p, int n, float fill = 0.0f) {
    return select(iota() < n, widen_bf16(load_lanes<uint16_t, vh>((const uint16_t*)p, n, 0)), splat(fill));
}
WS_FN vf load_n(const ws_f16* p, int n, float fill = 0.0f) {
    return select(iota() < n, widen_f16(load_lanes<uint16_t, vh>((const uint16_t*)p, n, 0)), splat(fill));
}
WS_FN void store_n(ws_bf16* p, vf v, int n) { store_lanes<uint16_t, vh>((uint16_t*)p, narrow_bf16(v), n); }
WS_FN void store_n(ws_f16* p, vf v, int n) { store_lanes<uint16_t, vh>((uint16_t*)p, narrow_f16(v), n); }
// A float as a half holds it.
template <class Value> WS_FN Value round_bf16(Value x) {
    typedef typename lanes<Value>::integer integer;
    const integer bits = as_int(x), rounded = (bits + 0x7fff + ((bits >> 16) & 1)) & ~0xffff;
    return select(x != x, x, as_float(rounded));
}
WS_FN vf round_f16(vf x) { return widen_f16(narrow_f16(x)); }
WS_FN float round_f16(float x) { return round_f16(splat(x))[0]; }
// float8 as torch has it: bits in the lanes of an integer, values in floats; exact one way, rounded to nearest even the other.
// e4m3fn: 4 bits of exponent, no infinities; what is too large becomes the largest, 448. e5m2: the upper byte of an IEEE half.
// As for halves, the float adder rounds what is below the normal numbers, and a multiplication moves the exponent.
template <class Integer> WS_FN Integer filled(int32_t x) { return Integer{} + x; }
template <class Value> WS_FN typename lanes<Value>::integer narrow_e4m3(Value x) {
    typedef typename lanes<Value>::integer integer;
    const integer magnitude = as_int(x) & 0x7fffffff;
    const integer tiny = as_int(as_float(magnitude) + 16384.0f) - 0x46800000;
    integer code = (magnitude - (120 << 23) + 0x7ffff + ((magnitude >> 20) & 1)) >> 20;
    code = select(magnitude < (121 << 23), tiny, code);
    code = select(magnitude > 0x43e80000, filled<integer>(0x7e), code);  // above 464
    code = select(magnitude > 0x7f800000, filled<integer>(0x7f), code);
    return code | ((as_int(x) >> 24) & 0x80);
}
template <class Value, class Integer> WS_FN Value widen_e4m3(Integer code) {
    const Integer magnitude = code & 0x7f;
    const Integer x = as_int(as_float(magnitude << 20) * 0x1p120f);
    return as_float(select(magnitude == 0x7f, filled<Integer>(0x7ff00000), x) | (code >> 7) << 31);
}
template <class Value> WS_FN typename lanes<Value>::integer narrow_e5m2(Value x) {
    typedef typename lanes<Value>::integer integer;
    const integer magnitude = as_int(x) & 0x7fffffff;
    const integer tiny = as_int(as_float(magnitude) + 128.0f) - 0x43000000;
    integer code = (magnitude - (112 << 23) + 0xfffff + ((magnitude >> 21) & 1)) >> 21;
    code = select(magnitude < (113 << 23), tiny, code);
    code = select(magnitude >= 0x47700000, filled<integer>(0x7c), code);  // 61440 and more
    code = select(magnitude > 0x7f800000, filled<integer>(0x7f), code);
    return code | ((as_int(x) >> 24) & 0x80);
}
template <class Value, class Integer> WS_FN Value widen_e5m2(Integer code) {
    const Integer magnitude = code & 0x7f;
    const Integer x = as_int(as_float(magnitude << 21) * 0x1p112f);
    const Integer special = (magnitude << 21) | 0x7f800000 | select(magnitude > 0x7c, filled<Integer>(0x400000), filled<Integer>(0));
    return as_float(select(magnitude >= 0x7c, special, x) | (code >> 7) << 31);
}
template <class Value> WS_FN Value round_e4m3(Value x) { return widen_e4m3<Value>(narrow_e4m3(x)); }
template <class Value> WS_FN Value round_e5m2(Value x) { return widen_e5m2<Value>(narrow_e5m2(x)); }
WS_FN vi widen_byte(vb b) { return __builtin_convertvector(b, vi); }
WS_FN vb narrow_byte(vi v) { return __builtin_convertvector(v, vb); }
WS_FN vf load(const ws_e4m3* p) { return widen_e4m3<vf>(widen_byte(*(const vb_mem*)p)); }
WS_FN vf load(const ws_e5m2* p) { return widen_e5m2<vf>(widen_byte(*(const vb_mem*)p)); }
WS_FN void store(ws_e4m3* p, vf v) { *(vb_mem*)p = narrow_byte(narrow_e4m3(v)); }
WS_FN void store(ws_e5m2* p, vf v) { *(vb_mem*)p = narrow_byte(narrow_e5m2(v)); }
WS_FN vf load_n(const ws_e4m3* p, int n, float fill = 0.0f) {
    return select(iota() < n, widen_e4m3<vf>(widen_byte(load_lanes<uint8_t, vb>((const uint8_t*)p, n, 0))), splat(fill));
}
WS_FN vf load_n(const ws_e5m2* p, int n, float fill = 0.0f) {
    return select(iota() < n, widen_e5m2<vf>(widen_byte(load_lanes<uint8_t, vb>((const uint8_t*)p, n, 0))), splat(fill));
}
WS_FN void store_n(ws_e4m3* p, vf v, int n) { store_lanes<uint8_t, vb>((uint8_t*)p, narrow_byte(narrow_e4m3(v)), n); }
WS_FN void store_n(ws_e5m2* p, vf v, int n) { store_lanes<uint8_t, vb>((uint8_t*)p, narrow_byte(narrow_e5m2(v)), n); }
WS_FN float load_one(const ws_e4m3* p) { return widen_e4m3<float>((int32_t)*(const uint8_t*)p); }
WS_FN float load_one(const ws_e5m2* p) { return widen_e5m2<float>((int32_t)*(const uint8_t*)p); }
WS_FN void store_one(ws_e4m3* p, float x) { *(uint8_t*)p = (uint8_t)narrow_e4m3(x); }
WS_FN void store_one(ws_e5m2* p, float x) { *(uint8_t*)p = (uint8_t)narrow_e5m2(x); }
// One element as a float, whatever its storage; and back.
WS_FN float load_one(const float* p) { return *p; }
WS_FN void store_one(float* p, float x) { *p = x; }
template <class Element> WS_FN float load_one(const Element* p) { return load_n(p, 1)[0]; }
template <class Element> WS_FN void store_one(Element* p, float x) { store_n(p, splat(x), 1); }

// Non-temporal store: writes past the caches, so that the line is not read first. p must be aligned to sizeof(vf).
// Each thread calls fence() after its last one.
WS_FN void stream_aligned(float* p, vf v) {
#if defined(__clang__)
    __builtin_nontemporal_store(v, (vf*)p);
#elif defined(__AVX512F__) && VEC == 16
    __builtin_ia32_movntps512(p, v);
#elif defined(__AVX__) && VEC == 8
    __builtin_ia32_movntps256(p, v);
#elif defined(__SSE__) && VEC == 4
    __builtin_ia32_movntps(p, v);
#else
    store(p, v);
#endif
}
WS_FN bool aligned(const void* p) { return ((uintptr_t)p & (4 * VEC - 1)) == 0; }
WS_FN void stream(float* p, vf v) {  // as above where p is aligned, an ordinary store elsewhere
    if (aligned(p)) stream_aligned(p, v);
    else store(p, v);
}
template <class Element> WS_FN void stream(Element* p, vf v) { store(p, v); }
WS_FN void fence() {
#if defined(__SSE__)
    __builtin_ia32_sfence();
#endif
}

// ------------------------------------------------------------------------------------------------- arithmetic primitives
// min/max as the hardware has them: where an argument is NaN the result is b. max_nan/min_nan: NaN if either is (torch).
WS_FN float min(float a, float b) { return a < b ? a : b; }
WS_FN float max(float a, float b) { return a > b ? a : b; }
WS_FN vi min(vi a, vi b) { return a < b ? a : b; }
WS_FN vi max(vi a, vi b) { return a > b ? a : b; }
WS_FN vf min(vf a, vf b) {
#if defined(WS_GCC) && defined(__AVX512F__) && VEC == 16
    return (vf)__builtin_ia32_minps512_mask(a, b, a, (unsigned short)-1, 4);
#elif defined(WS_GCC) && defined(__AVX__) && VEC == 8
    return (vf)__builtin_ia32_minps256(a, b);
#elif defined(WS_GCC) && defined(__SSE__) && VEC == 4
    return (vf)__builtin_ia32_minps(a, b);
#else
    return a < b ? a : b;
#endif
}
WS_FN vf max(vf a, vf b) {
#if defined(WS_GCC) && defined(__AVX512F__) && VEC == 16
    return (vf)__builtin_ia32_maxps512_mask(a, b, a, (unsigned short)-1, 4);
#elif defined(WS_GCC) && defined(__AVX__) && VEC == 8
    return (vf)__builtin_ia32_maxps256(a, b);
#elif defined(WS_GCC) && defined(__SSE__) && VEC == 4
    return (vf)__builtin_ia32_maxps(a, b);
#else
    return a > b ? a : b;
#endif
}
template <class Value> WS_FN Value min_nan(Value a, Value b) { return select(a != a, a, min(a, b)); }
template <class Value> WS_FN Value max_nan(Value a, Value b) { return select(a != a, a, max(a, b)); }
template <class Value> WS_FN Value clamp(Value x, float lo, float hi) {  // NaN stays NaN
    return min(splat<Value>(hi), max(splat<Value>(lo), x));
}
template <class Value> WS_FN Value abs(Value x) { return as_float(as_int(x) & 0x7fffffff); }
template <class Value> WS_FN Value copysign(Value x, Value sign) {
    return as_float((as_int(x) & 0x7fffffff) | (as_int(sign) & (int32_t)0x80000000));
}
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__aarch64__)
constexpr bool has_fma = true;
#else
constexpr bool has_fma = false;
#endif
template <class Value> WS_FN Value fma(Value a, Value b, Value c) { return a * b + c; }  // one rounding if has_fma

// Rounding: below 2^23 adding and subtracting 2^23 rounds to nearest even; above, every float is an integer.
template <class Value> WS_FN Value round_even(Value x) {
    Value a = abs(x), r = (a + 0x1p23f) - 0x1p23f;
    return copysign(select(a < 0x1p23f, r, x), x);
}
template <class Value> WS_FN Value floor(Value x) {
    Value r = round_even(x);
    return select(x == x, copysign(select(r > x, r - 1.0f, r), x), x);
}
template <class Value> WS_FN Value ceil(Value x) { return -floor(-x); }
template <class Value> WS_FN Value trunc(Value x) { return copysign(floor(abs(x)), x); }

WS_FN float sqrt(float x) { return __builtin_sqrtf(x); }
WS_FN vf sqrt(vf x) {
#if WS_HAS(__builtin_elementwise_sqrt)
    return __builtin_elementwise_sqrt(x);
#elif defined(WS_GCC) && defined(__AVX512F__) && VEC == 16
    return (vf)__builtin_ia32_sqrtps512_mask(x, x, (unsigned short)-1, 4);
#elif defined(WS_GCC) && defined(__AVX__) && VEC == 8
    return (vf)__builtin_ia32_sqrtps256(x);
#elif defined(WS_GCC) && defined(__SSE__) && VEC == 4
    return (vf)__builtin_ia32_sqrtps(x);
#else
    for (int i = 0; i < VEC; ++i) x[i] = __builtin_sqrtf(x[i]);
    return x;
#endif
}
template <class Value> WS_FN Value rsqrt(Value x) { return 1.0f / sqrt(x); }       // 1 ulp
template <class Value> WS_FN Value reciprocal(Value x) { return 1.0f / x; }

// ------------------------------------------------------------------------------------------------ horizontal reductions
// Pairwise over the lanes: log2(VEC) steps.
#if defined(WS_GCC)
WS_FN vf swap_lanes(vf v, int k) { return __builtin_shuffle(v, iota() ^ k); }
#else
WS_FN vf swap_lanes(vf v, int k) {
    vf r = v;
    for (int i = 0; i < VEC; ++i) r[i] = v[i ^ k];
    return r;
}
#endif
template <class Combine> WS_FN float across(vf v, Combine combine) {
    if (VEC >= 16) v = combine(v, swap_lanes(v, 8));
    if (VEC >= 8) v = combine(v, swap_lanes(v, 4));
    v = combine(v, swap_lanes(v, 2));
    return combine(v, swap_lanes(v, 1))[0];
}
WS_FN float hadd(vf v) { return across(v, [](vf a, vf b) { return a + b; }); }
WS_FN float hmul(vf v) { return across(v, [](vf a, vf b) { return a * b; }); }
WS_FN float hmax(vf v) { return across(v, [](vf a, vf b) { return max(a, b); }); }
WS_FN float hmin(vf v) { return across(v, [](vf a, vf b) { return min(a, b); }); }
WS_FN float hmax_nan(vf v) { return across(v, [](vf a, vf b) { return max_nan(a, b); }); }
WS_FN float hmin_nan(vf v) { return across(v, [](vf a, vf b) { return min_nan(a, b); }); }
WS_FN double hadd(const vd& v) {  // by reference: wider than a register, g++ would remark on its ABI
    double lane[VEC];
    __builtin_memcpy(lane, &v, sizeof v);
    for (int k = VEC / 2; k > 0; k /= 2)
        for (int i = 0; i < k; ++i) lane[i] += lane[i + k];
    return lane[0];
}
WS_FN vd widen(vf v) { return __builtin_convertvector(v, vd); }
WS_FN vf narrow(const vd& v) { return __builtin_convertvector(v, vf); }
WS_FN vd widen(vl v) { return __builtin_convertvector(v, vd); }  // exact to 2^53
WS_FN vl to_long(const vd& v) { return __builtin_convertvector(v, vl); }

// -------------------------------------------------------------------------------------------------------- exp, log & co
// Coefficients: minimax fits (Lawson's iteratively reweighted least squares, relative error) over the reduced range,
// rounded to fp32. Horner throughout: with FMA each step rounds once.
template <class Value> WS_FN Value poly(Value, float c) { return splat<Value>(c); }
template <class Value, class... Rest> WS_FN Value poly(Value x, float c, Rest... rest) {  // c + x * (rest)
    return poly(x, rest...) * x + c;
}

// Bits moved to a float's exponent; those beyond it are dropped (shifting a negative int is undefined).
WS_FN int32_t exponent_bits(int32_t k) { return (int32_t)((uint32_t)k << 23); }
WS_FN vi exponent_bits(vi k) { return (vi)((vu)k << 23); }
// n is integral. x * 2^n with gradual underflow.
WS_FN float scale(float x, float n) {
    int32_t k = (int32_t)n, half = k >> 1;
    return x * as_float(exponent_bits(half + 127)) * as_float(exponent_bits(k - half + 127));
}
WS_FN vf scale(vf x, vf n) {
#if defined(WS_GCC) && defined(__AVX512F__) && VEC == 16
    return (vf)__builtin_ia32_scalefps512_mask(x, n, x, (unsigned short)-1, 4);
#elif defined(WS_GCC) && defined(__AVX512VL__) && VEC == 8
    return (vf)__builtin_ia32_scalefps256_mask(x, n, x, (unsigned char)-1);
#else
    vi k = to_int(n), half = k >> 1;
    return x * as_float(exponent_bits(half + 127)) * as_float(exponent_bits(k - half + 127));
#endif
}
constexpr float round_magic = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
constexpr float log2_e = 1.44269504089f, ln2_hi = 0x1.62e400p-1f, ln2_lo = 0x1.7f7d1cp-20f;

// 1 ulp. inf above 88.72, gradual underflow below -87.3.
template <class Value> WS_FN Value exp(Value x) {
    x = clamp(x, -104.0f, 89.0f);
    Value n = (x * log2_e + round_magic) - round_magic;
    Value r = (x - n * ln2_hi) - n * ln2_lo;
    Value p = poly(r, 4.999999404e-01f, 1.666651964e-01f, 4.166839272e-02f, 8.368780836e-03f, 1.381446724e-03f);
    return scale(r * r * p + r + 1.0f, n);
}
template <class Value> WS_FN Value scale_nonpos(Value e, Value z, Value n) {
    if constexpr (lanes<Value>::native_scale) return scale(e, n);
    else return e * as_float(exponent_bits(as_int(z)) + 0x3f800000);  // z = n + round_magic; 2^n, and 0 for n = -127
}
// exp for x <= 0 (after subtracting a maximum), cheaper: 1 ulp. exp(-inf) = 0; below -87.3 denormal or 0.
template <class Value> WS_FN Value exp_nonpos(Value x) {
    x = max(splat<Value>(lanes<Value>::exp_floor), x);
    Value z = x * log2_e + round_magic, n = z - round_magic;
    Value r = (x - n * ln2_hi) - n * ln2_lo;
    Value p = poly(r, 4.999999404e-01f, 1.666651964e-01f, 4.166839272e-02f, 8.368780836e-03f, 1.381446724e-03f);
    return scale_nonpos(r * r * p + r + 1.0f, z, n);
}
// As exp_nonpos with a one-step reduction: 1 + 0.2 |x| ulp, where x itself, a rounded difference, carries up to |x| / 2.
template <class Value> WS_FN Value exp_nonpos_fast(Value x) {
    if constexpr (!has_fma) return exp_nonpos(x);
    x = max(splat<Value>(lanes<Value>::exp_floor), x);
    Value z = x * log2_e + round_magic, n = z - round_magic;
    Value r = x * log2_e - n;
    Value p = poly(r, 6.931471825e-01f, 2.402264774e-01f, 5.550331995e-02f, 9.618438780e-03f, 1.339900307e-03f, 1.535325719e-04f);
    return scale_nonpos(r * p + 1.0f, z, n);
}
template <class Value> WS_FN Value exp2(Value x) {  // 1 ulp
    x = clamp(x, -151.0f, 129.0f);
    Value n = (x + round_magic) - round_magic;
    Value r = x - n;
    Value p = poly(r, 6.931471825e-01f, 2.402264774e-01f, 5.550331995e-02f, 9.618438780e-03f, 1.339900307e-03f, 1.535325719e-04f);
    return scale(r * p + 1.0f, n);
}
template <class Value> WS_FN Value expm1(Value x) {  // 1.5 ulp, relative accuracy kept at 0
    x = clamp(x, -40.0f, 89.0f);
    Value n = (x * log2_e + round_magic) - round_magic;
    Value r = (x - n * ln2_hi) - n * ln2_lo;
    Value p = poly(r, 5.000000000e-01f, 1.666666567e-01f, 4.166635871e-02f, 8.333389647e-03f, 1.394071965e-03f, 1.984588453e-04f);
    Value e = r * r * p + r;
    Value t = scale(splat<Value>(0.5f), n);  // 2^(n-1): n may be 128
    Value y = 2.0f * (e * t + (t - 0.5f));
    return select(n == 0.0f, copysign(e, x), y);  // -0 stays -0
}
// log(1 + f) for f in [-1/3, 1/3], plus i * ln 2.
template <class Value> WS_FN Value log_poly(Value f, Value i) {
    Value p = poly(f, -5.000000000e-01f, 3.333320916e-01f, -2.499971688e-01f, 2.001074702e-01f, -1.668230593e-01f, 1.400116086e-01f,
               -1.216715574e-01f, 1.400475800e-01f, -1.294895709e-01f);
    return i * 0.693147182f + (f * f * p + f);
}
template <class Value> WS_FN Value log_special(Value x, Value y) {  // what no polynomial gives
    y = select(x == infinity, x, y);
    y = select(x == 0.0f, splat<Value>(-infinity), y);
    return select(x < 0.0f, splat<Value>(nan), select(x != x, x, y));
}
// x = m * 2^k with m in [2/3, 4/3): yields f = m - 1 and k.
template <class Value> WS_FN void log_split(Value x, Value& f, Value& k) {
    auto tiny = x < 0x1p-126f;
    x = select(tiny, x * 0x1p23f, x);
    auto e = (as_int(x) - 0x3f2aaaab) & (int32_t)0xff800000;
    f = as_float(as_int(x) - e) - 1.0f;
    k = to_float(e >> 23) - select(tiny, splat<Value>(23.0f), splat<Value>(0.0f));
}
template <class Value> WS_FN Value log(Value x) {  // 1 ulp
    Value f, k;
    log_split(x, f, k);
    return log_special(x, log_poly(f, k));
}
template <class Value> WS_FN Value log2(Value x) {  // 2 ulp
    Value f, k;
    log_split(x, f, k);
    Value l = log_poly(f, splat<Value>(0.0f));
    Value hi = as_float(as_int(l) & (int32_t)0xfffff000);  // 12 bits: the product with the leading part is exact
    Value lo = l - hi;
    return log_special(x, k + (hi * 0x1.714p+0f + (hi * 0x1.47652cp-12f + lo * log2_e)));
}
template <class Value> WS_FN Value log10(Value x) { return log(x) * 0.4342944819f; }  // 2 ulp
template <class Value> WS_FN Value log1p(Value x) {  // 1.6 ulp, relative accuracy kept at 0
    // k from 1 + x; then x scaled exactly: m - 1 = x * 2^-k + (2^-k - 1). (N. Juffa's arrangement.)
    Value u = x + 1.0f;
    auto e = (as_int(u) - 0x3f2aaaab) & (int32_t)0xff800000;
    Value s = as_float(0x3f800000 - e);  // 2^-k; not representable for the largest k, where the 1 no longer matters anyway
    Value f = select(u > 0x1p32f, as_float(as_int(u) - e) - 1.0f, x * s + (s - 1.0f));
    Value y = log_poly(f, to_float(e >> 23));
    y = select(u == infinity, u, y);
    y = select(u == 0.0f, splat<Value>(-infinity), y);
    y = select(x == 0.0f, x, y);
    return select(u < 0.0f, splat<Value>(nan), select(x != x, x, y));
}

// -------------------------------------------------------------------------------------------------- activation functions
template <class Value> WS_FN Value sigmoid(Value x) { return 1.0f / (1.0f + exp(-x)); }  // 2 ulp; 0 below -88.72, as torch
template <class Value> WS_FN Value silu(Value x) { return x / (1.0f + exp(-x)); }        // 2 ulp
template <class Value> WS_FN Value tanh(Value x) {                                       // 2 ulp, relative accuracy kept at 0
    Value a = abs(x), s = x * x;
    Value small = poly(s, -3.333328068e-01f, 1.333144158e-01f, -5.373971537e-02f, 2.063908800e-02f, -5.704987328e-03f) * s * x + x;
    Value large = 1.0f - 2.0f / (exp(min(splat<Value>(20.0f), a + a)) + 1.0f);
    return copysign(select(a < 0.625f, small, large), x);
}
// With AVX-512 a register is a table of 16: one minimax polynomial of degree 5 for each of 16 segments, coefficients fetched
// by lane (vpermps), no branches to blend. Row k holds the coefficients of d^k, d the distance to the nearest multiple of `step`.
#if defined(WS_GCC) && defined(__AVX512F__) && VEC == 16
#define WS_TABLES 1
// erf(t) / t, step 0.2625
alignas(64) constexpr float erf_table[6][16] = {
    {1.12837911f, 1.10298884f, 1.03274786f, 0.932811677f, 0.821367741f, 0.713576078f, 0.618462563f, 0.539123833f,
     0.474771708f, 0.422927201f, 0.380874157f, 0.346305013f, 0.317457676f, 0.293039888f, 0.272108793f, 0.253968269f},
    {-1.88737914e-15f, -0.189499706f, -0.335615158f, -0.413842738f, -0.425429285f, -0.390139103f, -0.332715899f, -0.272417456f,
     -0.219550505f, -0.177217484f, -0.144657642f, -0.119838946f, -0.100762643f, -0.0858696029f, -0.0740427971f, -0.0644998252f},
    {-0.376121938f, -0.331338465f, -0.217283145f, -0.0813984722f, 0.03050109f, 0.0957289934f, 0.116813168f, 0.109698325f,
     0.0908328369f, 0.0707621425f, 0.053959921f, 0.0412326232f, 0.0319327638f, 0.0251533464f, 0.0201461464f, 0.01638069f},
    {7.25307889e-13f, 0.109114043f, 0.169819698f, 0.165091783f, 0.114273243f, 0.052213084f, 0.00500469748f, -0.0194611717f,
     -0.0262285527f, -0.023856841f, -0.018693231f, -0.0137910731f, -0.010027023f, -0.00734942826f, -0.00547831785f, -0.00415964611f},
    {0.112146169f, 0.0862945542f, 0.0261538159f, -0.0312422272f, -0.0587707125f, -0.0545347594f, -0.0340571515f, -0.0136302877f,
     -0.000911688025f, 0.00426084828f, 0.00503952755f, 0.00415857881f, 0.00303094252f, 0.00212372653f, 0.00148711842f, 0.00105715671f},
    {-4.44087302e-11f, -0.0369925126f, -0.0495664254f, -0.034204185f, -0.00750774192f, 0.0118680121f, 0.0171961803f, 0.0129734632f,
     0.00646725297f, 0.00183385052f, -0.000304114423f, -0.000869751151f, -0.000796817592f, -0.00058227923f, -0.000396467483f, -0.000267060794f}};
// (Phi(t) - 1/2) / t, step 0.3625
alignas(64) constexpr float phi_table[6][16] = {
    {0.398942292f, 0.390374601f, 0.366584808f, 0.332498431f, 0.294117749f, 0.256576836f, 0.223073527f, 0.19484438f,
     0.171770409f, 0.153087452f, 0.137891173f, 0.125383466f, 0.114940964f, 0.106100529f, 0.0985221267f, 0.0919540152f},
    {-6.80011603e-16f, -0.0463490151f, -0.0825429708f, -0.10266424f, -0.106680818f, -0.0989733785f, -0.0853355825f, -0.0705008432f,
     -0.0571785755f, -0.0463262312f, -0.0378847197f, -0.0314088501f, -0.0264160726f, -0.0225134268f, -0.019413026f, -0.016911054f},
    {-0.0664896592f, -0.0589266978f, -0.0395182259f, -0.0160220452f, 0.00385725056f, 0.016011972f, 0.0205004215f, 0.0198094472f,
     0.0167405922f, 0.0132256178f, 0.0101714525f, 0.00780649204f, 0.00605713669f, 0.00477437815f, 0.00382471411f, 0.0031100011f},
    {1.19123055e-13f, 0.0133697446f, 0.0210568253f, 0.0209145732f, 0.0150086582f, 0.00738515658f, 0.00128587114f, -0.00210919627f,
     -0.00323760812f, -0.00309405685f, -0.00249386556f, -0.00187013519f, -0.00137113361f, -0.00100862735f, -0.000752810272f, -0.000571821583f},
    {0.00991524756f, 0.00772926165f, 0.00258227065f, -0.0024756249f, -0.00510047143f, -0.00497209979f, -0.00329202437f, -0.00146232045f,
     -0.000234102408f, 0.000322559761f, 0.000449581508f, 0.000392963091f, 0.000294815312f, 0.000209531077f, 0.000147615152f, 0.000105162311f},
    {-3.60395091e-12f, -0.00227194838f, -0.00310592283f, -0.00224520918f, -0.000620617589f, 0.000645279593f, 0.00107519596f, 0.000874972786f,
     0.0004760109f, 0.000161790798f, 9.36429899e-07f, -5.09603378e-05f, -5.2845593e-05f, -4.05325263e-05f, -2.82085693e-05f, -1.91724739e-05f}};
WS_FN vf segments(vf t, float step, const float (&table)[6][16]) {  // 0 <= t <= 15.4 step
    vf z = t * (1.0f / step) + round_magic;
    vf d = t - (z - round_magic) * step;
    vf y = vf{};
    for (int k = 5; k >= 0; --k) {
        vf coefficient = (vf)__builtin_ia32_permvarsf512_mask(load(table[k]), as_int(z), vf{}, (unsigned short)-1);
        y = y * d + coefficient;
    }
    return y;
}
#endif
// erfc(t) for t >= 0.9; 0 beyond 4 is what 1 - erfc needs of fp32, not a relatively accurate tail.
template <class Value> WS_FN Value erfc_tail(Value t) {
    t = min(splat<Value>(4.0f), t);
    Value g = t * poly(t, 1.128520012e+00f, 6.356993914e-01f, 1.052868515e-01f, -2.290603146e-02f, 3.219975391e-03f, -2.145950129e-04f);
    return exp_nonpos_fast(-g);
}
template <class Value> WS_FN Value erf_center(Value x) {  // |x| <= 0.9
    Value s = x * x;
    return poly(s, 1.283791661e-01f, -3.761263490e-01f, 1.128371507e-01f, -2.686050907e-02f, 5.203860346e-03f, -8.175650146e-04f,
                8.513145440e-05f) * x + x;
}
template <class Value> WS_FN Value erf(Value x) {  // 2.5 ulp, relative accuracy kept at 0
    Value t = abs(x);
    return copysign(select(t < 0.9f, erf_center(x), 1.0f - erfc_tail(t)), x);
}
#ifdef WS_TABLES
WS_FN vf erf(vf x) {
    vf t = min(splat(4.06f), abs(x));
    return copysign(min(splat(1.0f), t * segments(t, 0.2625f, erf_table)), x);
}
#endif
// x * Phi(x), as accurate as torch's 0.5 * x * (1 + erf(x / sqrt 2)), or more. 0 below -5.6.
template <class Value> WS_FN Value gelu(Value x) {
    Value z = x * 0.70710678118f, t = abs(z);
    Value e = 0.5f * select(t < 4.0f, erfc_tail(t), splat<Value>(0.0f));
    Value far = select(x < 0.0f, e, 1.0f - e);
    Value phi = select(t < 0.9f, 0.5f * erf_center(z) + 0.5f, far);
    return x * phi;
}
#ifdef WS_TABLES
WS_FN vf gelu(vf x) {
    vf t = min(splat(5.6f), abs(x));
    vf phi = copysign(t, x) * segments(t, 0.3625f, phi_table) + 0.5f;
    return x * select(x < -5.6f, vf{}, phi);
}
#endif
// For results in half precision.
template <class Value> WS_FN Value gelu_half(Value x) { return gelu(x); }
// 0.5 x (1 + tanh(u)) = x * sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3).
template <class Value> WS_FN Value gelu_tanh(Value x) {
    Value u2 = x * (x * x * (2.0f * 0.7978845608f * 0.044715f) + 2.0f * 0.7978845608f);
    return x / (1.0f + exp(-u2));
}
template <class Value> WS_FN Value softplus(Value x, float beta = 1.0f, float threshold = 20.0f) {
    Value z = x * beta;
    Value y = (max(splat<Value>(0.0f), z) + log1p(exp(-abs(z)))) * (1.0f / beta);
    return select(z > threshold, x, y);
}
// x tanh(softplus(x)) = x n / (n + 2) with n = e^x (e^x + 2): no cancellation, one division.
template <class Value> WS_FN Value mish(Value x) {
    Value e = exp(min(splat<Value>(20.0f), x));
    Value n = e * (e + 2.0f);
    return select(x > 20.0f, x, x * (n / (n + 2.0f)));
}
template <class Value> WS_FN Value relu(Value x) { return select(x < 0.0f, splat<Value>(0.0f), x); }  // NaN stays NaN
template <class Value> WS_FN Value hardtanh(Value x, float lo, float hi) { return clamp(x, lo, hi); }

// ------------------------------------------------------------------------------------------------------- sin, cos, pow
template <class Fn> WS_FN float each_lane(float x, Fn f) { return f(x); }
template <class Fn> WS_FN vf each_lane(vf x, Fn f) {  // libm, lane by lane: for the rare argument
    for (int i = 0; i < VEC; ++i) x[i] = f(x[i]);
    return x;
}
constexpr float sin_limit = has_fma ? 32768.0f : 200.0f;  // beyond it libm; without FMA the products with n must be exact
// sin(x + quarter * pi / 2) for |x| <= sin_limit: pi/2 in three parts (Cody and Waite). 2 ulp.
template <class Value> WS_FN Value sin_reduced(Value x, int32_t quarter) {
    Value z = x * 0.636619772f + round_magic;
    Value n = z - round_magic;
    Value r = ((x - n * 0x1.921f00p+0f) - n * 0x1.6a8800p-17f) - n * 0x1.0b4612p-34f;
    Value s = r * r;
    Value sine = poly(s, -1.666665524e-01f, 8.332155645e-03f, -1.951463200e-04f) * s * r + r;
    Value cosine = (poly(s, 4.166664556e-02f, -1.388730947e-03f, 2.443241283e-05f) * s - 0.5f) * s + 1.0f;
    auto q = as_int(z) + quarter;
    return as_float(as_int(select((q & 1) != 0, cosine, sine)) ^ ((q & 2) << 30));
}
template <class Value> WS_FN Value sin(Value x) {
    auto big = abs(x) > sin_limit;
    if (WS_LIKELY(!any(big))) return select(x == 0.0f, x, sin_reduced(x, 0));
    return each_lane(x, [](float v) { return __builtin_sinf(v); });
}
template <class Value> WS_FN Value cos(Value x) {
    auto big = abs(x) > sin_limit;
    if (WS_LIKELY(!any(big))) return sin_reduced(x, 1);
    return each_lane(x, [](float v) { return __builtin_cosf(v); });
}
WS_FN float pow(float x, float y) { return __builtin_powf(x, y); }  // 1 ulp; libm, lane by lane
WS_FN vf pow(vf x, vf y) {
    for (int i = 0; i < VEC; ++i) x[i] = __builtin_powf(x[i], y[i]);
    return x;
}
WS_FN vf pow(vf x, float y) { return pow(x, splat(y)); }
template <int Power, class Value> WS_FN Value powi(Value x) {  // x^Power for a constant integer Power, by repeated squaring
    if constexpr (Power < 0) return 1.0f / powi<-Power>(x);
    else if constexpr (Power == 0) return splat<Value>(1.0f);
    else if constexpr (Power == 1) return x;
    else if constexpr (Power % 2 == 0) return powi<Power / 2>(x * x);
    else return powi<Power / 2>(x * x) * x;
}

// -------------------------------------------------------------------------- inverse trigonometric, hyperbolic, remainders
// Ranges and polynomials after Cephes (S. Moshier, single precision), their rational reductions blended lane by lane.
template <class Value> WS_FN Value atan_center(Value x) {  // |x| <= tan(pi / 8)
    Value s = x * x;
    return poly(s, -3.33329491539e-1f, 1.99777106478e-1f, -1.38776856032e-1f, 8.05374449538e-2f) * s * x + x;
}
template <class Value> WS_FN Value atan_unit(Value t) {  // 0 <= t <= 1
    auto far = t > 0.4142135624f;
    Value r = atan_center(select(far, (t - 1.0f) / (t + 1.0f), t));
    return select(far, r + 0.7853981634f, r);
}
template <class Value> WS_FN Value atan(Value x) {  // 2.5 ulp
    Value a = abs(x);
    auto steep = a > 1.0f;
    Value r = atan_unit(select(steep, 1.0f / a, a));
    return copysign(select(steep, 1.5707963268f - r, r), x);
}
template <class Value> WS_FN Value atan2(Value y, Value x) {  // 3 ulp; zeros and infinities as IEEE 754 has them
    Value a = abs(y), b = abs(x);
    auto steep = a > b;
    Value t = select(steep, b, a) / select(steep, a, b);
    t = select(a == b, splat<Value>(1.0f), t);
    t = select(a == 0.0f, splat<Value>(0.0f), t);
    t = select((a != a) | (b != b), a + b, t);
    Value r = atan_unit(t);
    r = select(steep, 1.5707963268f - r, r);
    r = select(as_int(x) < 0, 3.1415926536f - r, r);
    return copysign(r, y);
}
template <class Value> WS_FN Value asin_center(Value x, Value s) {  // s = x * x, |x| <= 0.5
    return poly(s, 1.6666752422e-1f, 7.4953002686e-2f, 4.5470025998e-2f, 2.4181311049e-2f, 4.2163199048e-2f) * s * x + x;
}
template <class Value> WS_FN Value asin(Value x) {  // 2.5 ulp; NaN outside [-1, 1]
    Value a = abs(x);
    auto far = a > 0.5f;
    Value s = select(far, 0.5f * (1.0f - a), a * a);
    Value r = asin_center(select(far, sqrt(s), a), s);
    return copysign(select(far, 1.5707963268f - (r + r), r), x);
}
template <class Value> WS_FN Value acos(Value x) {  // 2.5 ulp; NaN outside [-1, 1]
    Value a = abs(x);
    auto far = a > 0.5f;
    Value s = select(far, 0.5f * (1.0f - a), a * a);
    Value r = asin_center(select(far, sqrt(s), x), s);
    return select(far, select(x < 0.0f, 3.1415926536f - (r + r), r + r), 1.5707963268f - r);
}
template <class Value> WS_FN Value tan_reduced(Value x) {
    Value z = x * 0.636619772f + round_magic;
    Value n = z - round_magic;
    Value r = ((x - n * 0x1.921f00p+0f) - n * 0x1.6a8800p-17f) - n * 0x1.0b4612p-34f;
    Value s = r * r;
    Value y = poly(s, 3.33331568548e-1f, 1.33387994085e-1f, 5.34112807005e-2f, 2.44301354525e-2f, 3.11992232697e-3f,
                   9.38540185543e-3f) * s * r + r;
    return select((as_int(z) & 1) != 0, -1.0f / y, y);
}
template <class Value> WS_FN Value tan(Value x) {  // 3.5 ulp
    auto big = abs(x) > sin_limit;
    if (WS_LIKELY(!any(big))) return select(x == 0.0f, x, tan_reduced(x));
    return each_lane(x, [](float v) { return __builtin_tanf(v); });
}
template <class Value> WS_FN Value half_exp(Value x) {  // exp(x) / 2, finite up to 89.4; 1 ulp
    x = clamp(x, -104.0f, 90.0f);
    Value n = (x * log2_e + round_magic) - round_magic;
    Value r = (x - n * ln2_hi) - n * ln2_lo;
    Value p = poly(r, 4.999999404e-01f, 1.666651964e-01f, 4.166839272e-02f, 8.368780836e-03f, 1.381446724e-03f);
    return scale(r * r * p + r + 1.0f, n - 1.0f);
}
template <class Value> WS_FN Value sinh(Value x) {  // 2 ulp
    Value a = abs(x), s = x * x, h = half_exp(a);
    Value small = poly(s, 1.66667160211e-1f, 8.33028376239e-3f, 2.03721912945e-4f) * s * x + x;
    return select(a < 1.0f, small, copysign(h - 0.25f / h, x));
}
template <class Value> WS_FN Value cosh(Value x) {  // 2 ulp
    Value h = half_exp(abs(x));
    return h + 0.25f / h;
}
template <class Value> WS_FN Value asinh(Value x) {  // 3.5 ulp, relative accuracy kept at 0
    Value a = abs(x), s = a * a;
    Value near = log1p(a + s / (1.0f + sqrt(s + 1.0f))), far = log(a) + 0.6931471806f;
    return copysign(select(a > 0x1p30f, far, near), x);
}
template <class Value> WS_FN Value acosh(Value x) {  // 3.5 ulp; NaN below 1
    Value t = x - 1.0f;
    Value near = log1p(t + sqrt(t * (x + 1.0f))), far = log(x) + 0.6931471806f;
    return select(x < 1.0f, splat<Value>(nan), select(x > 0x1p30f, far, near));
}
template <class Value> WS_FN Value atanh(Value x) {  // 3.5 ulp; NaN outside [-1, 1]
    Value a = abs(x);
    return copysign(0.5f * log1p((a + a) / (1.0f - a)), x);
}
template <class Value> WS_FN Value erfc(Value x) {  // 3 ulp; libm, lane by lane
    return each_lane(x, [](float v) { return __builtin_erfcf(v); });
}
WS_FN float fmod(float a, float b) { return __builtin_fmodf(a, b); }
// Remainder of a / b towards zero, exact. With FMA a - q b is exact for |q| < 2^22, and q is off by one at most.
WS_FN vf fmod(vf a, vf b) {
    vf x = abs(a), y = abs(b), q = x / y;
    if (has_fma && !any((vm)~(q < 0x1p22f))) {
        q = floor(q);
        vf r = x - q * y;
        r = select(r < 0.0f, r + y, r);
        r = select(r >= y, r - y, r);
        return copysign(select(y == infinity, x, r), a);
    }
    for (int i = 0; i < VEC; ++i) a[i] = __builtin_fmodf(a[i], b[i]);
    return a;
}
template <class Value> WS_FN Value remainder(Value a, Value b) {  // with the sign of b, as Python's %
    Value r = fmod(a, b);
    return select((r != 0.0f) & ((r < 0.0f) != (b < 0.0f)), r + b, r);
}
template <class Value> WS_FN Value floor_divide(Value a, Value b) {  // as torch: from the exact remainder
    Value r = fmod(a, b), q = (a - r) / b;
    q = select((r != 0.0f) & ((r < 0.0f) != (b < 0.0f)), q - 1.0f, q);
    Value f = floor(q);
    f = select(q - f > 0.5f, f + 1.0f, f);
    f = select(q == 0.0f, copysign(splat<Value>(0.0f), a / b), f);
    return select(b == 0.0f, a / b, f);
}
template <class Value> WS_FN Value log_sigmoid(Value x) {  // min(x, 0) - log1p(exp(-|x|)): 2 ulp
    return min_nan(x, splat<Value>(0.0f)) - log1p(exp_nonpos(-abs(x)));
}

// ------------------------------------------------------------------------------------------------------- long reductions
// Sum of at(i), i = 0, VEC, 2 VEC, ... < n. `at(i)` yields the vector at i; `at_n(i, m)` yields the last m < VEC lanes, the
// others 0. Unroll accumulators hide the latency of the adder; every 64 steps they are flushed into double, so that the error
// does not grow with n.
template <int Unroll = 4, class At, class AtN> WS_FN double sum(int64_t n, At at, AtN at_n) {
    vd total{};
    int64_t i = 0;
    while (i + Unroll * VEC <= n) {
        int64_t end = i + 64 * Unroll * VEC < n ? i + 64 * Unroll * VEC : n;
        vf a[Unroll] = {};
        for (; i + Unroll * VEC <= end; i += Unroll * VEC)
            for (int u = 0; u < Unroll; ++u) a[u] += at(i + u * VEC);
        for (int u = 0; u < Unroll; ++u) total += widen(a[u]);
    }
    vf rest{};
    for (; i + VEC <= n; i += VEC) rest += at(i);
    if (i < n) rest += at_n(i, (int)(n - i));
    return hadd(total + widen(rest));
}
// As sum, for rows too long for the caches: four places at once, since one stream does not saturate the memory.
template <int Unroll = 2, class At, class AtN> WS_FN double sum_wide(int64_t n, At at, AtN at_n) {
    constexpr int64_t step = Unroll * VEC;
    const int64_t quarter = n / (4 * step) * step;
    if (quarter < 4096) return sum(n, at, at_n);
    vd total{};
    for (int64_t i = 0; i < quarter;) {
        const int64_t end = i + 64 * step < quarter ? i + 64 * step : quarter;
        vf a[4][Unroll] = {};
        for (; i < end; i += step)
            for (int q = 0; q < 4; ++q)
                for (int u = 0; u < Unroll; ++u) a[q][u] += at(q * quarter + i + u * VEC);
        for (int q = 0; q < 4; ++q)
            for (int u = 0; u < Unroll; ++u) total += widen(a[q][u]);
    }
    const int64_t done = 4 * quarter;
    auto rest = [&](int64_t i) { return at(done + i); };
    auto last = [&](int64_t i, int m) { return at_n(done + i, m); };
    return hadd(total) + sum(n - done, rest, last);
}
// Running count, mean and sum of squared deviations (M2), merged block by block (Chan, Golub and LeVeque 1983), in one pass.
// Lane-wise for vf: columns of a matrix, or lanes of a row. Feed it x - origin, origin being any one of the values: then M2 is
// good to 5e-7 however far the mean is from zero. More values per `add`, fewer divisions; all lanes have the same count.
template <class Value> struct Moments {
    Value mean, m2;
    float count;
    __attribute__((always_inline)) Moments() : mean(splat<Value>(0.0f)), m2(splat<Value>(0.0f)), count(0.0f) {}
    template <int Block> __attribute__((always_inline)) void add(const Value (&x)[Block]) {
        Value s = x[0];
        for (int j = 1; j < Block; ++j) s += x[j];
        Value block_mean = s * (1.0f / Block), block_m2 = splat<Value>(0.0f);
        for (int j = 0; j < Block; ++j) block_m2 += (x[j] - block_mean) * (x[j] - block_mean);
        merge(block_mean, block_m2, Block);
    }
    __attribute__((always_inline)) void merge(Value other_mean, Value other_m2, float other_count) {
        float total = count + other_count, share = other_count / total;
        Value delta = other_mean - mean;
        mean += delta * share;
        m2 += other_m2 + delta * delta * (count * share);
        count = total;
    }
};
// Mean and M2 of a row of n >= 1 floats, in one pass. at, at_n as for sum; variance = m2 / (n - correction).
// Lanes in fp32, merged into double every 64 blocks, so that the error does not grow with n. An infinity makes both NaN.
struct RowMoments { double mean, m2, count; };
WS_FN void merge(RowMoments& row, RowMoments other) {
    if (other.count == 0.0) return;
    double total = row.count + other.count, delta = other.mean - row.mean;
    row.m2 += other.m2 + delta * delta * (row.count * other.count / total);
    row.mean += delta * (other.count / total);
    row.count = total;
}
WS_FN RowMoments across(const Moments<vf>& m) {
    vd mean = widen(m.mean);
    double row_mean = hadd(mean) / VEC;
    vd off = mean - row_mean;
    return {row_mean, hadd(widen(m.m2) + off * off * (double)m.count), (double)m.count * VEC};
}
WS_FN RowMoments across(const vd& x, int n) {  // of the first n lanes
    vd inside = __builtin_convertvector((iota() < n) & 1, vd);
    double mean = hadd(x * inside) / n;
    vd d = (x - mean) * inside;
    return {mean, hadd(d * d), (double)n};
}
template <int Block = 8, class At, class AtN> WS_FN RowMoments row_moments(int64_t n, At at, AtN at_n) {
    const float origin = (n >= VEC ? at(0) : at_n(0, (int)n))[0];
    RowMoments row{0.0, 0.0, 0.0};
    int64_t i = 0;
    while (i + Block * VEC <= n) {
        Moments<vf> m;
        const int64_t end = i + 64 * Block * VEC < n ? i + 64 * Block * VEC : n;
        for (; i + Block * VEC <= end; i += Block * VEC) {
            vf x[Block];
            for (int j = 0; j < Block; ++j) x[j] = at(i + j * VEC) - origin;
            m.add(x);
        }
        merge(row, across(m));
    }
    Moments<vf> rest;
    for (; i + VEC <= n; i += VEC) rest.merge(at(i) - origin, vf{}, 1.0f);
    if (rest.count > 0.0f) merge(row, across(rest));
    if (i < n) merge(row, across(widen(at_n(i, (int)(n - i)) - origin), (int)(n - i)));
    row.mean += origin;
    return row;
}
// As sum, for any reduction whose fp32 combination is exact (min, max) or wanted in fp32; `at_n` must fill with `start`.
template <int Unroll = 4, class At, class AtN, class Combine>
WS_FN float reduce(int64_t n, float start, At at, AtN at_n, Combine combine) {
    vf a[Unroll];
    for (int u = 0; u < Unroll; ++u) a[u] = splat(start);
    int64_t i = 0;
    for (; i + Unroll * VEC <= n; i += Unroll * VEC)
        for (int u = 0; u < Unroll; ++u) a[u] = combine(a[u], at(i + u * VEC));
    for (; i + VEC <= n; i += VEC) a[0] = combine(a[0], at(i));
    if (i < n) a[0] = combine(a[0], at_n(i, (int)(n - i)));
    for (int u = 1; u < Unroll; ++u) a[0] = combine(a[0], a[u]);
    return across(a[0], combine);
}
// body(i) for each whole vector of [begin, end), tail(i, m) for what is left (m < VEC).
template <class Body, class Tail> WS_FN void each_vector(int64_t begin, int64_t end, Body body, Tail tail) {
    int64_t i = begin;
    for (; i + VEC <= end; i += VEC) body(i);
    if (i < end) tail(i, (int)(end - i));
}

// --------------------------------------------------------------------------------------------------------------- threads
// Splits [0, n) into at most `threads` contiguous parts of at least `grain` items (a multiple of `align` items, so that two
// threads never write one cache line) and calls f(begin, end, part) for each. Below 2 * grain it runs on the caller: a
// parallel region costs 1 us while the threads still spin, tens when they sleep. Which part covers what depends on the
// arguments only: reductions over parts are deterministic.
WS_FN int part_count(int threads, int64_t n, int64_t grain) {
    int64_t most = n / (grain > 0 ? grain : 1);
    return most < 1 ? 1 : (most < threads ? (int)most : threads);
}
template <class Fn> static inline void parallel_ranges(int threads, int64_t n, int64_t grain, const Fn& f, int64_t align = 1) {
    const int parts = part_count(threads, n, grain);
    if (parts == 1) {
        if (n > 0) f((int64_t)0, n, 0);
        return;
    }
    const int64_t size = ((n + parts - 1) / parts + align - 1) / align * align;
#ifdef _OPENMP
#pragma omp parallel num_threads(parts)
    {
        const Fn local = f;
        const int team = omp_get_num_threads();  // may be fewer than asked for
        for (int part = omp_get_thread_num(); part < parts; part += team) {
            int64_t begin = part * size, end = begin + size < n ? begin + size : n;
            if (begin < end) local(begin, end, part);
        }
    }
#else
    for (int part = 0; part < parts; ++part) {
        int64_t begin = part * size, end = begin + size < n ? begin + size : n;
        if (begin < end) f(begin, end, part);
    }
#endif
}
// Two-stage reduction: partial(begin, end) -> Value for each part, then combine(a, b) in the order of the parts.
template <class Value, int MaxParts = 64, class Partial, class Combine>
static inline Value parallel_reduce(int threads, int64_t n, int64_t grain, Value start, const Partial& partial, Combine combine,
                                int64_t align = 1) {
    struct alignas(64) Slot { Value value; };
    Slot slot[MaxParts];
    const int parts = part_count(threads < MaxParts ? threads : MaxParts, n, grain);
    for (int p = 0; p < parts; ++p) slot[p].value = start;
    auto fill = [&](int64_t begin, int64_t end, int part) { slot[part].value = partial(begin, end); };
    parallel_ranges(parts, n, grain, fill, align);
    Value r = slot[0].value;
    for (int p = 1; p < parts; ++p) r = combine(r, slot[p].value);
    return r;
}

}  // namespace ws
