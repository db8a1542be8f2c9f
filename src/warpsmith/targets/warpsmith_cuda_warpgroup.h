// Matrix products by warpgroup (`wgmma`) of fp16 and bf16, the left factor in shared memory or in registers, and copies by `cp.async` that report to a barrier
// in shared memory, for sm_90a. Include it from the unit itself.
//
// A tile in shared memory is panels of 64 columns: rows of 128 bytes, one after the other from a multiple of 1024 on, each 16 bytes at their place XOR the row's
// number modulo 8. Sources: PTX ISA 9.0, 9.7.15.5 "wgmma.mma_async", 9.7.15.5.1 "Matrix descriptor" and 9.7.13.15.16 "cp.async.mbarrier.arrive".
#ifndef WARPSMITH_CUDA_WARPGROUP_H
#define WARPSMITH_CUDA_WARPGROUP_H
#include "warpsmith_cuda_mma.h"
#include "warpsmith_cuda_wgmma.h"

namespace ws {

// Bytes from the beginning of a tile of ROWS rows to an element.
template <int ROWS>
__device__ __forceinline__ int tile_place(int row, int column) {
  return (column >> 6) * (ROWS * 128) + row * 128 + (((column & 63) * 2) ^ ((row & 7) * 16));
}
// A tile whose rows go along the depth of a product is a left or a right factor by `tile_descriptor`. Of one whose rows are the depth (a right factor stored by rows):
// `panel_bytes` from 64 columns to the next. The next 16 rows: add 128 to it.
__device__ __forceinline__ uint64_t columns_descriptor(const void* p, uint32_t panel_bytes) {
  const uint64_t start = (shared_place(p) & 0x3ffff) >> 4, leading = panel_bytes >> 4, stride = 1024 >> 4, swizzle = 1;
  return start | leading << 16 | stride << 32 | swizzle << 62;
}
// Arrives when this thread's copies by `copy_async` so far have: the barrier counts every thread that calls it.
__device__ __forceinline__ void copy_arrive(Barrier* b) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(shared_place(b)) : "memory");
}

// Barriers 8 to 15 of `threads` threads, whole warps: those who wait, and those who only come by.
__device__ __forceinline__ void named_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory"); }
__device__ __forceinline__ void named_arrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" :: "r"(id), "r"(threads) : "memory"); }

template <class T>
inline constexpr bool is_bf16 = false;
template <>
inline constexpr bool is_bf16<__nv_bfloat16> = true;

#define WS_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WS_D8(i) WS_D4(i), WS_D4(i + 4)
#define WS_D16(i) WS_D8(i), WS_D8(i + 8)
#define WS_D32(i) WS_D16(i), WS_D16(i + 16)
#define WS_D64(i) WS_D32(i), WS_D32(i + 32)
#define WS_R8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WS_R16 WS_R8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WS_R24 WS_R16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WS_R32 WS_R24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define WS_R40 WS_R32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WS_R48 WS_R40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WS_R56 WS_R48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define WS_R64 WS_R56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define WS_R72 WS_R64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define WS_R80 WS_R72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define WS_R88 WS_R80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define WS_R96 WS_R88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define WS_R104 WS_R96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define WS_R112 WS_R104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define WS_R120 WS_R112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define WS_R128 WS_R120 ", %120, %121, %122, %123, %124, %125, %126, %127"

// d = a b, or d += a b where `add`: a is 64 x 16 by rows, b 16 x N by columns, both in tiles. All of a warpgroup. Of the thread t of warp w, d[4 j + i] is row
// 16 w + t / 4 + i / 2 * 8, column 8 j + t % 4 * 2 + i % 2. N is 64 or 128.
#define WS_SS(TYPE, N, COUNT, a_, b_, add_, ...)                                                                                   \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #add_ ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" WS_R##COUNT \
               "}, %" #a_ ", %" #b_ ", p, 1, 1, 0, 0;\n}"                                                                          \
               : __VA_ARGS__                                                                                                       \
               : "l"(a), "l"(b), "r"((int)add))
template <class T, int N>
__device__ __forceinline__ void wgmma_ss(float (&d)[N / 2], uint64_t a, uint64_t b, bool add) {
  static_assert(N == 64 || N == 128, "a product of 64 or 128 columns");
  if constexpr (N == 64 && is_bf16<T>) WS_SS("bf16", 64, 32, 32, 33, 34, WS_D32(0));
  else if constexpr (N == 64) WS_SS("f16", 64, 32, 32, 33, 34, WS_D32(0));
  else if constexpr (is_bf16<T>) WS_SS("bf16", 128, 64, 64, 65, 66, WS_D64(0));
  else WS_SS("f16", 128, 64, 64, 65, 66, WS_D64(0));
}
#undef WS_SS

// d += a b: a in registers, 16 rows of each warp as `mma_f16` has them, which stay as they are until the product is done; b 16 x N, stored by rows. N is a multiple of 16 to 256.
#define WS_RS(TYPE, N, COUNT, a0, a1, a2, a3, b_, one, ...)                                                                 \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #one ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" WS_R##COUNT \
               "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b_ ", p, 1, 1, 1;\n}"                                   \
               : __VA_ARGS__                                                                                                \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1))
#define WS_RS_OF(N, COUNT, a0, a1, a2, a3, b_, one, ...)                                \
  else if constexpr (COLUMNS == N) {                                               \
    if constexpr (is_bf16<T>) WS_RS("bf16", N, COUNT, a0, a1, a2, a3, b_, one, __VA_ARGS__); \
    else WS_RS("f16", N, COUNT, a0, a1, a2, a3, b_, one, __VA_ARGS__);                  \
  }
template <class T, int COLUMNS>
__device__ __forceinline__ void wgmma_rs(float (&d)[COLUMNS / 2], const uint32_t (&a)[4], uint64_t b) {
  static_assert(COLUMNS % 16 == 0 && COLUMNS >= 16 && COLUMNS <= 256, "a product of 16 to 256 columns");
  if constexpr (COLUMNS == 0) {
  }
  WS_RS_OF(16, 8, 8, 9, 10, 11, 12, 13, WS_D8(0))
  WS_RS_OF(32, 16, 16, 17, 18, 19, 20, 21, WS_D16(0))
  WS_RS_OF(48, 24, 24, 25, 26, 27, 28, 29, WS_D16(0), WS_D8(16))
  WS_RS_OF(64, 32, 32, 33, 34, 35, 36, 37, WS_D32(0))
  WS_RS_OF(80, 40, 40, 41, 42, 43, 44, 45, WS_D32(0), WS_D8(32))
  WS_RS_OF(96, 48, 48, 49, 50, 51, 52, 53, WS_D32(0), WS_D16(32))
  WS_RS_OF(112, 56, 56, 57, 58, 59, 60, 61, WS_D32(0), WS_D16(32), WS_D8(48))
  WS_RS_OF(128, 64, 64, 65, 66, 67, 68, 69, WS_D64(0))
  WS_RS_OF(144, 72, 72, 73, 74, 75, 76, 77, WS_D64(0), WS_D8(64))
  WS_RS_OF(160, 80, 80, 81, 82, 83, 84, 85, WS_D64(0), WS_D16(64))
  WS_RS_OF(176, 88, 88, 89, 90, 91, 92, 93, WS_D64(0), WS_D16(64), WS_D8(80))
  WS_RS_OF(192, 96, 96, 97, 98, 99, 100, 101, WS_D64(0), WS_D32(64))
  WS_RS_OF(208, 104, 104, 105, 106, 107, 108, 109, WS_D64(0), WS_D32(64), WS_D8(96))
  WS_RS_OF(224, 112, 112, 113, 114, 115, 116, 117, WS_D64(0), WS_D32(64), WS_D16(96))
  WS_RS_OF(240, 120, 120, 121, 122, 123, 124, 125, WS_D64(0), WS_D32(64), WS_D16(96), WS_D8(112))
  WS_RS_OF(256, 128, 128, 129, 130, 131, 132, 133, WS_D64(0), WS_D64(64))
}
#undef WS_RS_OF
#undef WS_RS
#undef WS_D4
#undef WS_D8
#undef WS_D16
#undef WS_D32
#undef WS_D64
#undef WS_R8
#undef WS_R16
#undef WS_R24
#undef WS_R32
#undef WS_R40
#undef WS_R48
#undef WS_R56
#undef WS_R64
#undef WS_R72
#undef WS_R80
#undef WS_R88
#undef WS_R96
#undef WS_R104
#undef WS_R112
#undef WS_R120
#undef WS_R128

}  // namespace ws
#endif
