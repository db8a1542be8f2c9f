//! Shared-memory layouts of Hopper tiles: the swizzles of TMA, panels of swizzled rows, and wgmma's matrix descriptors.
//! Integers only, for host and device. Sources: PTX ISA 9.0, "Matrix descriptor" and "Shared memory layout" of wgmma.
#pragma once
#include <cstdint>

#ifdef __CUDACC__
#define WS_INTEGER __host__ __device__ __forceinline__ constexpr
#else
#define WS_INTEGER inline constexpr
#endif

namespace ws::sm90 {

// A swizzle XORs the number of a 16-byte chunk inside a row of SPAN bytes with the address bits 7 and up. It repeats
// every 8 * SPAN bytes. SPAN: 128, 64, 32; 16 is no swizzle.
template <int SPAN>
WS_INTEGER uint32_t swizzle(uint32_t offset) {
  static_assert(SPAN == 128 || SPAN == 64 || SPAN == 32 || SPAN == 16, "TMA swizzles rows of 128, 64 or 32 bytes");
  return offset ^ (offset >> 3 & (SPAN - 16));
}

// A tile is cut into panels of WIDTH 2-byte elements; a panel is ROWS swizzled rows, one after the other.
template <int WIDTH>
WS_INTEGER uint32_t panel_offset(uint32_t rows, uint32_t row, uint32_t column) {
  return column / WIDTH * rows * (2 * WIDTH) + swizzle<2 * WIDTH>(row * (2 * WIDTH) + column % WIDTH * 2);
}

// The widest panel, in elements of 2 bytes, that divides a tile's columns.
WS_INTEGER int panel_width(int columns) {
  return columns % 64 == 0 ? 64 : columns % 32 == 0 ? 32 : columns % 16 == 0 ? 16 : 8;
}

// wgmma's descriptor of a matrix in shared memory. `leading` and `stride` are bytes.
//   K-major (rows of 128 bytes along K): `stride` from 8 rows to the next 8; `leading` is not read under a swizzle.
//   MN-major (rows along M or N):        `stride` from 8 rows of K to the next 8; `leading` from panel to panel.
WS_INTEGER uint64_t matrix_descriptor(uint32_t address, uint32_t leading, uint32_t stride, int span) {
  const uint64_t mode = span == 128 ? 1 : span == 64 ? 2 : span == 32 ? 3 : 0;
  return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 |
         mode << 62;
}

// A wgmma operand in shared memory: EXTENT rows of M (or columns of N) times DEPTH terms of K, 2 bytes each.
// K-major: panels of 64 terms, each EXTENT rows. MN-major: panels of WIDTH rows of M (or columns of N), each DEPTH rows.
template <bool MN_MAJOR, int EXTENT, int DEPTH, int WIDTH>
struct OperandTile {
  static_assert(DEPTH % 64 == 0 && EXTENT % 8 == 0, "whole swizzle atoms");
  static constexpr int PANEL = MN_MAJOR ? WIDTH : 64;  // elements of a panel's row
  static constexpr int PANELS = MN_MAJOR ? (EXTENT + WIDTH - 1) / WIDTH : DEPTH / 64;
  static constexpr int PANEL_ROWS = MN_MAJOR ? DEPTH : EXTENT;
  static constexpr int PANEL_BYTES = PANEL_ROWS * PANEL * 2;
  static constexpr int BYTES = PANELS * PANEL_BYTES;
  static_assert(PANEL_BYTES % 1024 == 0, "a panel begins where the swizzle begins");

  WS_INTEGER static uint64_t descriptor(uint32_t address) {
    return MN_MAJOR ? matrix_descriptor(address, PANEL_BYTES, 8 * PANEL * 2, PANEL * 2)
                    : matrix_descriptor(address, 16, 8 * 128, 128);
  }
  // Bytes from the tile's begin to row `row` of M (a multiple of 64) or column of N, at the K step `step` of 16 terms.
  WS_INTEGER static uint32_t offset(int row, int step) {
    return MN_MAJOR ? row / PANEL * PANEL_BYTES + step * 16 * PANEL * 2
                    : step / 4 * PANEL_BYTES + row * 128 + step % 4 * 32;
  }
};

}  // namespace ws::sm90
