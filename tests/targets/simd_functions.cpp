// Exports the functions of warpsmith_simd.h for tests/targets/test_simd.py, which adds one pair per mathematical function.
#include <stdint.h>
struct ws_bf16 { uint16_t bits; };
struct ws_f16 { uint16_t bits; };
#include "warpsmith_simd.h"
#define EXPORT extern "C" __attribute__((visibility("default")))
using ws::vf;
template <class In, class Out> static void copy(const In* in, Out* out, int64_t n) {
    ws::each_vector(0, n, [&](int64_t i) { ws::store(out + i, ws::load(in + i)); },
                    [&](int64_t i, int m) { ws::store_n(out + i, ws::load_n(in + i, m), m); });
}
template <class Op> static void binary(const float* a, const float* b, float* out, int64_t n, Op op) {
    ws::each_vector(0, n, [&](int64_t i) { ws::store(out + i, op(ws::load(a + i), ws::load(b + i))); },
                    [&](int64_t i, int m) { ws::store_n(out + i, op(ws::load_n(a + i, m), ws::load_n(b + i, m)), m); });
}
EXPORT int width() { return VEC; }
EXPORT void copy_f32(const float* in, float* out, int64_t n) { copy(in, out, n); }
EXPORT void copy_i32(const int32_t* in, int32_t* out, int64_t n) { copy(in, out, n); }
EXPORT void copy_i64(const int64_t* in, int64_t* out, int64_t n) { copy(in, out, n); }
EXPORT void widen_bf16(const ws_bf16* in, float* out, int64_t n) { copy(in, out, n); }
EXPORT void narrow_bf16(const float* in, ws_bf16* out, int64_t n) { copy(in, out, n); }
EXPORT void widen_f16(const ws_f16* in, float* out, int64_t n) { copy(in, out, n); }
EXPORT void narrow_f16(const float* in, ws_f16* out, int64_t n) { copy(in, out, n); }
EXPORT void one_bf16(const ws_bf16* in, ws_bf16* out) { ws::store_one(out, ws::load_one(in)); }
EXPORT void fill_tail(const float* in, float* out, int n) { ws::store(out, ws::load_n(in, n, 7.0f)); }
EXPORT void copy_bool(const bool* in, bool* out, int64_t n) {
    ws::each_vector(0, n, [&](int64_t i) { ws::store_bool(out + i, ws::load_bool(in + i)); },
                    [&](int64_t i, int m) { ws::store_bool_n(out + i, ws::load_bool_n(in + i, m), m); });
}
EXPORT void max_nan(const float* a, const float* b, float* o, int64_t n) { binary(a, b, o, n, [](vf x, vf y) { return ws::max_nan(x, y); }); }
EXPORT void min_nan(const float* a, const float* b, float* o, int64_t n) { binary(a, b, o, n, [](vf x, vf y) { return ws::min_nan(x, y); }); }
EXPORT void max_plain(const float* a, const float* b, float* o, int64_t n) { binary(a, b, o, n, [](vf x, vf y) { return ws::max(x, y); }); }
EXPORT void min_plain(const float* a, const float* b, float* o, int64_t n) { binary(a, b, o, n, [](vf x, vf y) { return ws::min(x, y); }); }
EXPORT void power(const float* a, const float* b, float* o, int64_t n) { binary(a, b, o, n, [](vf x, vf y) { return ws::pow(x, y); }); }
EXPORT void two_atan2(const float* a, const float* b, float* o, int64_t n) { binary(a, b, o, n, [](vf x, vf y) { return ws::atan2(x, y); }); }
EXPORT void two_fmod(const float* a, const float* b, float* o, int64_t n) { binary(a, b, o, n, [](vf x, vf y) { return ws::fmod(x, y); }); }
EXPORT void two_remainder(const float* a, const float* b, float* o, int64_t n) { binary(a, b, o, n, [](vf x, vf y) { return ws::remainder(x, y); }); }
EXPORT void two_floor_divide(const float* a, const float* b, float* o, int64_t n) { binary(a, b, o, n, [](vf x, vf y) { return ws::floor_divide(x, y); }); }
template <class Op> static void integers(const int64_t* a, const int64_t* b, int64_t* o, int64_t n, Op op) {
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC) *(ws::vl_mem*)(o + i) = op(*(const ws::vl_mem*)(a + i), *(const ws::vl_mem*)(b + i));
    for (; i < n; ++i) o[i] = op(ws::splat_long(a[i]), ws::splat_long(b[i]))[0];
}
EXPORT void trunc_div(const int64_t* a, const int64_t* b, int64_t* o, int64_t n) { integers(a, b, o, n, [](ws::vl x, ws::vl y) { return ws::trunc_div(x, y); }); }
EXPORT void floor_div(const int64_t* a, const int64_t* b, int64_t* o, int64_t n) { integers(a, b, o, n, [](ws::vl x, ws::vl y) { return ws::floor_div(x, y); }); }
EXPORT void floor_mod(const int64_t* a, const int64_t* b, int64_t* o, int64_t n) { integers(a, b, o, n, [](ws::vl x, ws::vl y) { return ws::floor_mod(x, y); }); }
EXPORT void clamp_unit(const float* a, const float*, float* o, int64_t n) { binary(a, a, o, n, [](vf x, vf) { return ws::clamp(x, -1.0f, 1.0f); }); }
EXPORT void cube(const float* a, const float*, float* o, int64_t n) { binary(a, a, o, n, [](vf x, vf) { return ws::powi<3>(x); }); }
EXPORT void inverse_square(const float* a, const float*, float* o, int64_t n) { binary(a, a, o, n, [](vf x, vf) { return ws::powi<-2>(x); }); }
EXPORT void gelu_vector(const float* a, const float*, float* o, int64_t n) { binary(a, a, o, n, [](vf x, vf) { return ws::gelu(x); }); }
EXPORT void gelu_scalar(const float* a, const float*, float* o, int64_t n) { for (int64_t i = 0; i < n; ++i) o[i] = ws::gelu(a[i]); }
EXPORT void stream_copy(const float* in, float* out, int64_t n) {
    for (int64_t i = 0; i + VEC <= n; i += VEC) ws::stream(out + i, ws::load(in + i));
    ws::fence();
}
EXPORT void across(const float* in, float* out) {
    vf v = ws::load(in);
    out[0] = ws::hadd(v), out[1] = ws::hmul(v), out[2] = ws::hmax(v), out[3] = ws::hmin(v);
    out[4] = ws::hmax_nan(v), out[5] = ws::hmin_nan(v), out[6] = (float)ws::any(v > 100.0f), out[7] = (float)ws::hadd(ws::widen(v));
}
EXPORT double row_sum(const float* x, int64_t n) {
    return ws::sum(n, [&](int64_t i) { return ws::load(x + i); }, [&](int64_t i, int m) { return ws::load_n(x + i, m); });
}
EXPORT float row_max(const float* x, int64_t n) {
    return ws::reduce(n, -ws::infinity, [&](int64_t i) { return ws::load(x + i); },
                      [&](int64_t i, int m) { return ws::load_n(x + i, m, -ws::infinity); }, [](vf a, vf b) { return ws::max_nan(a, b); });
}
EXPORT void row_moments(const float* x, int64_t n, double* out) {
    auto r = ws::row_moments(n, [&](int64_t i) { return ws::load(x + i); }, [&](int64_t i, int m) { return ws::load_n(x + i, m); });
    out[0] = r.mean, out[1] = r.m2;
}
EXPORT void cover(int threads, int64_t n, int64_t grain, int64_t align, int32_t* visits, int32_t* part_of) {
    ws::parallel_ranges(threads, n, grain, [&](int64_t begin, int64_t end, int part) {
        for (int64_t i = begin; i < end; ++i) visits[i] += 1, part_of[i] = part;
    }, align);
}
EXPORT double wide_sum(const float* x, int64_t n) {
    return ws::sum_wide(n, [&](int64_t i) { return ws::load(x + i); }, [&](int64_t i, int m) { return ws::load_n(x + i, m); });
}
EXPORT double parallel_sum(const float* x, int threads, int64_t n) {
    return ws::parallel_reduce<double>(threads, n, 1000, 0.0, [&](int64_t b, int64_t e) { return row_sum(x + b, e - b); },
                                       [](double a, double b) { return a + b; });
}
