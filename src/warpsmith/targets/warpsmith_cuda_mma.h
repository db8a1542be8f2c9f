// Tensor cores by warp (`mma.sync`) and copies to shared memory that run beside the arithmetic (`cp.async`), for
// compute capability 8.0 and later. Include it from the unit itself.
//
// Fragments are those of PTX (ISA 9.0, 9.7.14.5, "Matrix fragments for mma.m16n8k8 / m16n8k16"): with g = lane / 4 and
// t = lane % 4, a float32 d[i] is row g + i / 2 * 8, column 2 t + i % 2; a TF32 a[i] is row g + i % 2 * 8, column
// t + i / 2 * 4, b[i] row t + i * 4, column g; halves go in pairs: a[i] is row g + i % 2 * 8, columns 2 t + i / 2 * 8 and
// the next, b[i] rows 2 t + i * 8 and the next, column g. All 32 lanes take part.
#ifndef WARPSMITH_CUDA_MMA_H
#define WARPSMITH_CUDA_MMA_H
#include "warpsmith_cuda.h"

namespace ws {

// TF32 keeps 10 bits of the fraction; to nearest, ties away from zero.
__device__ __forceinline__ uint32_t tf32(float x) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}
// x = high + low up to 2^-21 of it, 2^-23 in the root mean square, in either direction: `high` is rounded, and of `low`
// the instructions below read the first 10 bits of the fraction. Three operations, where each conversion by `cvt` is
// three or four. A NaN is in `low`; infinities become NaN.
__device__ __forceinline__ void tf32_split(float x, uint32_t& high, uint32_t& low) {
  high = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
  low = __float_as_uint(x - __uint_as_float(high));
}

// d += a b; a is 16 x 8 by rows, b 8 x 8 by columns.
__device__ __forceinline__ void mma_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// d += a b; a is 16 x 16 by rows, b 16 x 8 by columns.
__device__ __forceinline__ void mma_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Two floats rounded to nearest, as a register of a fragment holds them: `low` in the lower half.
__device__ __forceinline__ uint32_t pack_f16(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// The two floats of such a register.
__device__ __forceinline__ Pack<float, 2> unpack_f16(uint32_t pair) {
  Pack<float, 2> both;
  asm("{.reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high;}" : "=f"(both.at[0]), "=f"(both.at[1]) : "r"(pair));
  return both;
}
__device__ __forceinline__ Pack<float, 2> unpack_bf16(uint32_t pair) { return {{__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)}}; }

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
// Four 8 x 8 matrices of 16-bit elements: lane i says where row i % 8 of matrix i / 8 begins (a multiple of 16 bytes);
// r[j] is matrix j's elements (g, 2 t) and (g, 2 t + 1). Of 32-bit elements it takes 8 x 4: r[j] is element (g, t).
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
// The same, each matrix transposed: r[j] is elements (2 t, g) and (2 t + 1, g). Of 16-bit elements only.
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

// BYTES (4, 8 or 16, both addresses a multiple of it) on their way to shared memory; zeros where not `there`: then
// nothing is read, but `global` must still be aligned. They have arrived, for the thread that asked for them, after
// copy_commit and a copy_wait that leaves fewer groups; for the others after a barrier, too.
template <int BYTES>
__device__ __forceinline__ void copy_async(void* shared, const void* global, bool there) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async moves 4, 8 or 16 bytes");
  const int bytes = there ? BYTES : 0;
  if constexpr (BYTES == 16)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 :: "r"(shared_address(shared)), "l"(__cvta_generic_to_global(global)), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %3, %2;"
                 :: "r"(shared_address(shared)), "l"(__cvta_generic_to_global(global)), "r"(bytes), "n"(BYTES)
                 : "memory");
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most LEFT of this thread's groups are under way.
template <int LEFT>
__device__ __forceinline__ void copy_wait() {
  asm volatile("cp.async.wait_group %0;" :: "n"(LEFT) : "memory");
}

}  // namespace ws
#endif
