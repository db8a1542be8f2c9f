// Matrix products by warpgroup (`wgmma`), and copies of whole tiles that report to a barrier in shared memory, for
// sm_90a. Include it from the unit itself.
//
// A warpgroup is four warps that begin at a multiple of four. Sources: PTX ISA 9.0, 9.7.15 "Asynchronous warpgroup level
// matrix instructions", 9.7.13.15 "mbarrier", 9.7.9.25.4 "cp.async.bulk".
#ifndef WARPSMITH_CUDA_WGMMA_H
#define WARPSMITH_CUDA_WGMMA_H
#include "warpsmith_cuda.h"
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
static_assert(false, "requires: sm_90a");
#endif

namespace ws {

// Where it lies in shared memory.
__device__ __forceinline__ uint32_t shared_place(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
// The first address from p on that is a multiple of TO in shared memory.
template <int TO>
__device__ __forceinline__ unsigned char* aligned_shared(unsigned char* p) {
  return p + (TO - shared_place(p) % TO) % TO;
}

// A barrier in shared memory. Its phases are numbered 0, 1, 0, …; one ends when `count` arrivals have come and all bytes
// that were promised. One thread initialises it; barrier_ready and a barrier of the block come before any other use.
using Barrier = uint64_t;
__device__ __forceinline__ void barrier_init(Barrier* b, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_place(b)), "r"(count) : "memory");
}
// To the engine that copies, too.
__device__ __forceinline__ void barrier_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void barrier_arrive(Barrier* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_place(b)) : "memory");
}
// Arrives, and promises so many bytes.
__device__ __forceinline__ void barrier_expect(Barrier* b, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared_place(b)), "r"(bytes) : "memory");
}
// Until the phase of this number is over: at once where the barrier has not begun it, as before its first one with 1.
__device__ __forceinline__ void barrier_wait(Barrier* b, uint32_t phase) {
  uint32_t over;
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(over) : "r"(shared_place(b)), "r"(phase) : "memory");
  } while (over == 0);
}

// `bytes`, and both addresses, a multiple of 16. By one thread; what others wait for at the barrier. What an earlier
// launch wrote may be copied; what this one wrote may not.
__device__ __forceinline__ void bulk_copy(void* shared, const void* global, uint32_t bytes, Barrier* b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(shared_place(shared)), "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(shared_place(b))
               : "memory");
}

// Rows of 128 bytes along the sum, one after the other from a multiple of 1024 on, each 16 bytes at their place XOR the
// row's number modulo 8 (the 128-byte swizzle): eight rows to the next eight are 1024 bytes. The next 32 bytes of the
// rows: add 2 to it.
__device__ __forceinline__ uint64_t tile_descriptor(const void* p) {
  const uint64_t start = (shared_place(p) & 0x3ffff) >> 4, leading = 1, stride = 1024 >> 4, swizzle = 1;
  return start | leading << 16 | stride << 32 | swizzle << 62;
}

// Rows of 16 bytes, eight of them packed: `leading` to the second 8 terms of all rows, `stride` from eight rows to the next,
// both in units of 16 bytes (no swizzle). `p` is a multiple of 16. Further places: add them, in units of 16 bytes.
__device__ __forceinline__ uint64_t packed_descriptor(const void* p, uint32_t leading, uint32_t stride) {
  return (uint64_t)((shared_place(p) & 0x3ffff) >> 4 | leading << 16) | (uint64_t)stride << 32;
}
// What this thread has stored to shared memory is seen by products that come after a barrier.
__device__ __forceinline__ void shared_stored() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Two floats, rounded to nearest: a in the lower half.
__device__ __forceinline__ uint32_t two_halves(float a, float b) {
  uint32_t both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
  return both;
}

// A warpgroup gives registers back, or takes them, so that each of its threads has COUNT (a multiple of 8). The kernel has
// __launch_bounds__(threads, 1), and each role is one branch.
template <int COUNT>
__device__ __forceinline__ void registers_less() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(COUNT));
}
template <int COUNT>
__device__ __forceinline__ void registers_more() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(COUNT));
}

// A barrier of a warpgroup: of those below 15.
__device__ __forceinline__ void warpgroup_sync() {
  asm volatile("bar.sync %0, 128;" :: "r"((int)threadIdx.x / 128 + 1) : "memory");
}
// Before the first product, and after registers of sums were touched.
__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// A thread's sums as operands.
#define WS_SUMS(d) \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
  "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
  "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
  "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), \
  "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), \
  "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), \
  "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
  "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
// d = a b, or d += a b where `add`: a is 64 x 16 halves by rows, b 16 x 128 by columns. All of a warpgroup. Of the thread
// t of warp w, d[4 j + i] is row 16 w + t / 4 + i / 2 * 8, column 8 j + t % 4 * 2 + i % 2.
__device__ __forceinline__ void product_64x128(float (&d)[64], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1, 0, 0;\n}"
      : WS_SUMS(d)
      : "l"(a), "l"(b), "r"((int)add));
}
// Ends a group of products.
__device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until all groups but the last LEFT are done, d's among them: shared memory that they read is free again.
template <int LEFT>
__device__ __forceinline__ void products_wait(float (&d)[64]) {
  asm volatile("wgmma.wait_group.sync.aligned %64;"
      : WS_SUMS(d)
      : "n"(LEFT)
      : "memory");
}
#undef WS_SUMS

#define WS_SUMS_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WS_SUMS_8(i) WS_SUMS_4(i), WS_SUMS_4(i + 4)
#define WS_SUMS_16(i) WS_SUMS_8(i), WS_SUMS_8(i + 8)
#define WS_SUMS_32(i) WS_SUMS_16(i), WS_SUMS_16(i + 16)
// The same for N columns, a multiple of 8, where b has a packed descriptor and its rows lie packed. d: N / 2 sums, of thread
// t of warp w d[4 j + i] as above.
template <int N>
__device__ __forceinline__ void product_64(float* d, uint64_t a, uint64_t b, bool add) {
  if constexpr (N == 8) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
        "{%0, %1, %2, %3}, "
        "%4, %5, p, 1, 1, 0, 0;\n}"
        : WS_SUMS_4(0)
        : "l"(a), "l"(b), "r"((int)add));
  } else if constexpr (N == 16) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\nwgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, "
        "%8, %9, p, 1, 1, 0, 0;\n}"
        : WS_SUMS_8(0)
        : "l"(a), "l"(b), "r"((int)add));
  } else if constexpr (N == 32) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\nwgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "%16, %17, p, 1, 1, 0, 0;\n}"
        : WS_SUMS_16(0)
        : "l"(a), "l"(b), "r"((int)add));
  } else if constexpr (N == 64) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, p, 1, 1, 0, 0;\n}"
        : WS_SUMS_32(0)
        : "l"(a), "l"(b), "r"((int)add));
  } else if constexpr (N == 128) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, p, 1, 1, 0, 0;\n}"
        : WS_SUMS_32(0), WS_SUMS_32(32)
        : "l"(a), "l"(b), "r"((int)add));
  } else {
    constexpr int PART = N > 64 ? 64 : N > 32 ? 32 : N > 16 ? 16 : 8;
    product_64<PART>(d, a, b, add);
    product_64<N - PART>(d + PART / 2, a, b + PART, add);
  }
}
#undef WS_SUMS_4
#undef WS_SUMS_8
#undef WS_SUMS_16
#undef WS_SUMS_32
// Until all groups but the last LEFT are done: shared memory that they read is free again.
template <int LEFT>
__device__ __forceinline__ void products_left() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(LEFT) : "memory"); }
// Until all of them are done; then `sums_done` of every array of sums before it is used.
__device__ __forceinline__ void products_done() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
template <int COUNT>
__device__ __forceinline__ void sums_done(float (&d)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; i++) asm volatile("" : "+f"(d[i]) :: "memory");
}

}  // namespace ws
#endif
