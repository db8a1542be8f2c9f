//! The instructions of warpgroup matrix products: m64nNk16 for N = 8 ... 256 in steps of 8, written by macros. A unit has those of its
//! own tiles, written out (`gemm_tma_wgmma.write_wgmma`).
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace ws::sm90 {

// Four accumulators as operands, and their names in the instruction.
#define WS_D(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WS_D1 WS_D(0)
#define WS_D2 WS_D1, WS_D(4)
#define WS_D3 WS_D2, WS_D(8)
#define WS_D4 WS_D3, WS_D(12)
#define WS_D5 WS_D4, WS_D(16)
#define WS_D6 WS_D5, WS_D(20)
#define WS_D7 WS_D6, WS_D(24)
#define WS_D8 WS_D7, WS_D(28)
#define WS_D9 WS_D8, WS_D(32)
#define WS_D10 WS_D9, WS_D(36)
#define WS_D11 WS_D10, WS_D(40)
#define WS_D12 WS_D11, WS_D(44)
#define WS_D13 WS_D12, WS_D(48)
#define WS_D14 WS_D13, WS_D(52)
#define WS_D15 WS_D14, WS_D(56)
#define WS_D16 WS_D15, WS_D(60)
#define WS_D17 WS_D16, WS_D(64)
#define WS_D18 WS_D17, WS_D(68)
#define WS_D19 WS_D18, WS_D(72)
#define WS_D20 WS_D19, WS_D(76)
#define WS_D21 WS_D20, WS_D(80)
#define WS_D22 WS_D21, WS_D(84)
#define WS_D23 WS_D22, WS_D(88)
#define WS_D24 WS_D23, WS_D(92)
#define WS_D25 WS_D24, WS_D(96)
#define WS_D26 WS_D25, WS_D(100)
#define WS_D27 WS_D26, WS_D(104)
#define WS_D28 WS_D27, WS_D(108)
#define WS_D29 WS_D28, WS_D(112)
#define WS_D30 WS_D29, WS_D(116)
#define WS_D31 WS_D30, WS_D(120)
#define WS_D32 WS_D31, WS_D(124)
#define WS_N1 "%0, %1, %2, %3"
#define WS_N2 WS_N1 ", %4, %5, %6, %7"
#define WS_N3 WS_N2 ", %8, %9, %10, %11"
#define WS_N4 WS_N3 ", %12, %13, %14, %15"
#define WS_N5 WS_N4 ", %16, %17, %18, %19"
#define WS_N6 WS_N5 ", %20, %21, %22, %23"
#define WS_N7 WS_N6 ", %24, %25, %26, %27"
#define WS_N8 WS_N7 ", %28, %29, %30, %31"
#define WS_N9 WS_N8 ", %32, %33, %34, %35"
#define WS_N10 WS_N9 ", %36, %37, %38, %39"
#define WS_N11 WS_N10 ", %40, %41, %42, %43"
#define WS_N12 WS_N11 ", %44, %45, %46, %47"
#define WS_N13 WS_N12 ", %48, %49, %50, %51"
#define WS_N14 WS_N13 ", %52, %53, %54, %55"
#define WS_N15 WS_N14 ", %56, %57, %58, %59"
#define WS_N16 WS_N15 ", %60, %61, %62, %63"
#define WS_N17 WS_N16 ", %64, %65, %66, %67"
#define WS_N18 WS_N17 ", %68, %69, %70, %71"
#define WS_N19 WS_N18 ", %72, %73, %74, %75"
#define WS_N20 WS_N19 ", %76, %77, %78, %79"
#define WS_N21 WS_N20 ", %80, %81, %82, %83"
#define WS_N22 WS_N21 ", %84, %85, %86, %87"
#define WS_N23 WS_N22 ", %88, %89, %90, %91"
#define WS_N24 WS_N23 ", %92, %93, %94, %95"
#define WS_N25 WS_N24 ", %96, %97, %98, %99"
#define WS_N26 WS_N25 ", %100, %101, %102, %103"
#define WS_N27 WS_N26 ", %104, %105, %106, %107"
#define WS_N28 WS_N27 ", %108, %109, %110, %111"
#define WS_N29 WS_N28 ", %112, %113, %114, %115"
#define WS_N30 WS_N29 ", %116, %117, %118, %119"
#define WS_N31 WS_N30 ", %120, %121, %122, %123"
#define WS_N32 WS_N31 ", %124, %125, %126, %127"

// The N of an instruction, N / 8, and the numbers of the operands after the accumulators.
#define WS_WGMMA_OF(TYPE, n, j, a, b, add, ta, tb)                                                          \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #add ", 0;\n"                                           \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." TYPE "." TYPE " {" WS_N##j "}, %" #a ", %" #b \
               ", p, 1, 1, %" #ta ", %" #tb ";\n}"                                                          \
               : WS_D##j                                                                                    \
               : "l"(left), "l"(right), "r"(accumulate), "n"(LEFT_MN_MAJOR), "n"(RIGHT_MN_MAJOR))
#define WS_WGMMA(n, j, a, b, add, ta, tb)                                     \
  else if constexpr (N == n) {                                                \
    if constexpr (BF16) WS_WGMMA_OF("bf16", n, j, a, b, add, ta, tb);         \
    else WS_WGMMA_OF("f16", n, j, a, b, add, ta, tb);                         \
  }

template <class T>
inline constexpr bool is_bf16 = false;
template <>
inline constexpr bool is_bf16<__nv_bfloat16> = true;

// d += left right, or d = left right where `accumulate` is 0; `left` and `right` are descriptors of 64 x 16 and 16 x N
// elements of T. Of thread t of warp w, d[4 j + i] is row 16 w + t / 4 + i / 2 * 8, column 8 j + t % 4 * 2 + i % 2.
template <class T, int N, int LEFT_MN_MAJOR, int RIGHT_MN_MAJOR>
__device__ __forceinline__ void wgmma(float (&d)[N / 2], uint64_t left, uint64_t right, int accumulate) {
  static_assert(N % 8 == 0 && N >= 8 && N <= 256, "wgmma has N of 8 ... 256 in steps of 8");
  constexpr bool BF16 = is_bf16<T>;
  if constexpr (N == 0) {
  }
  WS_WGMMA(8, 1, 4, 5, 6, 7, 8)
  WS_WGMMA(16, 2, 8, 9, 10, 11, 12)
  WS_WGMMA(24, 3, 12, 13, 14, 15, 16)
  WS_WGMMA(32, 4, 16, 17, 18, 19, 20)
  WS_WGMMA(40, 5, 20, 21, 22, 23, 24)
  WS_WGMMA(48, 6, 24, 25, 26, 27, 28)
  WS_WGMMA(56, 7, 28, 29, 30, 31, 32)
  WS_WGMMA(64, 8, 32, 33, 34, 35, 36)
  WS_WGMMA(72, 9, 36, 37, 38, 39, 40)
  WS_WGMMA(80, 10, 40, 41, 42, 43, 44)
  WS_WGMMA(88, 11, 44, 45, 46, 47, 48)
  WS_WGMMA(96, 12, 48, 49, 50, 51, 52)
  WS_WGMMA(104, 13, 52, 53, 54, 55, 56)
  WS_WGMMA(112, 14, 56, 57, 58, 59, 60)
  WS_WGMMA(120, 15, 60, 61, 62, 63, 64)
  WS_WGMMA(128, 16, 64, 65, 66, 67, 68)
  WS_WGMMA(136, 17, 68, 69, 70, 71, 72)
  WS_WGMMA(144, 18, 72, 73, 74, 75, 76)
  WS_WGMMA(152, 19, 76, 77, 78, 79, 80)
  WS_WGMMA(160, 20, 80, 81, 82, 83, 84)
  WS_WGMMA(168, 21, 84, 85, 86, 87, 88)
  WS_WGMMA(176, 22, 88, 89, 90, 91, 92)
  WS_WGMMA(184, 23, 92, 93, 94, 95, 96)
  WS_WGMMA(192, 24, 96, 97, 98, 99, 100)
  WS_WGMMA(200, 25, 100, 101, 102, 103, 104)
  WS_WGMMA(208, 26, 104, 105, 106, 107, 108)
  WS_WGMMA(216, 27, 108, 109, 110, 111, 112)
  WS_WGMMA(224, 28, 112, 113, 114, 115, 116)
  WS_WGMMA(232, 29, 116, 117, 118, 119, 120)
  WS_WGMMA(240, 30, 120, 121, 122, 123, 124)
  WS_WGMMA(248, 31, 124, 125, 126, 127, 128)
  WS_WGMMA(256, 32, 128, 129, 130, 131, 132)
}
#undef WS_WGMMA
#undef WS_WGMMA_OF

}  // namespace ws::sm90
