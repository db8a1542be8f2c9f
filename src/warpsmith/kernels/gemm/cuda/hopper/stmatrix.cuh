//! Matrix fragments of registers to shared memory by `stmatrix`, sm_90.
#pragma once
#include <cstdint>

namespace ws::sm90 {

// Four 8 x 8 matrices of 2-byte elements; lane l gives the address of row l % 8 of matrix l / 8. TRANSPOSED: of column.
template <bool TRANSPOSED>
__device__ __forceinline__ void store_matrices(uint32_t address, const uint32_t (&fragment)[4]) {
  if constexpr (TRANSPOSED)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
                 "r"(fragment[0]), "r"(fragment[1]), "r"(fragment[2]), "r"(fragment[3])
                 : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(fragment[0]),
                 "r"(fragment[1]), "r"(fragment[2]), "r"(fragment[3])
                 : "memory");
}

}  // namespace ws::sm90
