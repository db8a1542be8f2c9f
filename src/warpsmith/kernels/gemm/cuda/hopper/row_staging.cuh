//! A warpgroup's sums through shared memory, for epilogues that take neighbours of a row together. Limit: columns of a tile are a
//! multiple of 32.
#pragma once

namespace ws::sm90 {

constexpr int STAGED_ROWS = 16, STAGED_COLUMNS = 32, STAGED_PITCH = 40;  // of a warp at a time; floats from row to row
constexpr int ROW_STAGING_BYTES = 4 * STAGED_ROWS * STAGED_PITCH * 4;     // of a warpgroup

// Hands V sums at a time to `finish(m, n, sums)`, those of row m from column n on, V of which divide the columns. (row, column): where
// the warpgroup's tile begins; what lies outside of rows and columns is left out. Each warp stages its own rows.
template <int V, int MMAS, int SUMS, class Finish>
__device__ __forceinline__ void stage_rows(const float (&sums)[MMAS][SUMS], int row, int column, int rows, int columns,
                                           float* staging, const Finish& finish) {
  static_assert(SUMS % 16 == 0, "whole steps of 32 columns");
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  float* const own = staging + warp * STAGED_ROWS * STAGED_PITCH;
#pragma unroll
  for (int i = 0; i < MMAS; i++)
#pragma unroll
    for (int step = 0; step < SUMS / 16; step++) {
#pragma unroll
      for (int j = 0; j < 4; j++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
          const int at = 16 * step + 4 * j + 2 * half;
          float* const to = own + (lane / 4 + 8 * half) * STAGED_PITCH + 8 * j + lane % 4 * 2;
          *reinterpret_cast<float2*>(to) = make_float2(sums[i][at], sums[i][at + 1]);
        }
      __syncwarp();
#pragma unroll 1
      for (int pack = lane; pack < STAGED_ROWS * STAGED_COLUMNS / V; pack += 32) {
        const int r = pack / (STAGED_COLUMNS / V), c = pack % (STAGED_COLUMNS / V) * V;
        const int m = row + 64 * i + 16 * warp + r, n = column + STAGED_COLUMNS * step + c;
        if (m < rows && n < columns) finish(m, n, own + r * STAGED_PITCH + c);
      }
      __syncwarp();
    }
}

}  // namespace ws::sm90
