//! Fused epilogue of an implicit GEMM: a warp sums the places of some channels of the tile, for a deterministic second
//! kernel. $value: result after the pointwise chain.
  // A warp adds up the places of some channels at once; the kernel `finish` adds up the tiles.
  constexpr int WARP_COUNT = THREADS / 32, CHANNELS_PER_WARP = WINDOW_D * WINDOW_H * WINDOW_W < 8 ? 4 : 2;
  const int tile_number = ((z0 / TILE_D * (int)TILES_H + y0 / TILE_H) * (int)TILES_W + x0 / TILE_W) * OUTER + outer;
  float* const sums = (float*)spare + (image * TILES + tile_number) * ALL + group * OUTS;
#pragma unroll 1
  for (int first = threadIdx.x / 32; first < CHANNELS; first += WARP_COUNT * CHANNELS_PER_WARP) {
    const auto wanted = [&](int c) {
      return (CHANNELS % (WARP_COUNT * CHANNELS_PER_WARP) == 0 || c < CHANNELS) && (OUTS % CHANNELS == 0 || block * CHANNELS + c < OUTS);
    };
    float totals[CHANNELS_PER_WARP] = {};
#pragma unroll 1
    for (int q = threadIdx.x % 32; q < PLACES; q += 32) {
      const Place task = place(q);
      if (!task.inside) continue;
#pragma unroll
      for (int i = 0; i < CHANNELS_PER_WARP; i++) {
        const int c = first + i * WARP_COUNT;
        if (!wanted(c)) continue;
        int64_t at[RANK];
        index(at, task, block * CHANNELS + c);
        const ws::Pack<float, 1> made = {{take(c, task)}};
        totals[i] += $value.at[0];
      }
    }
#pragma unroll
    for (int i = 0; i < CHANNELS_PER_WARP; i++) {
      const int c = first + i * WARP_COUNT;
      const float sum = ws::warp_sum(totals[i]);
      if (threadIdx.x % 32 == 0 && wanted(c)) sums[block * CHANNELS + c] = sum;
    }
  }
