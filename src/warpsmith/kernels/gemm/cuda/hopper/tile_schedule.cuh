//! Static schedule of a persistent GEMM: rasters of tiles in groups, balanced parts of K, and tiles that fill waves.
//! Integers only, for host and device.
#pragma once
#include "smem_layout.cuh"

namespace ws::sm90 {

WS_INTEGER int ceil_div(int a, int b) { return (a + b - 1) / b; }

struct TilePlace {
  int row, column;
};

// The place of tile `index` of `rows` x `columns` tiles. Blocks that run together share operands: `group` tiles down,
// then one over. `along_n`: the same with rows and columns exchanged.
WS_INTEGER TilePlace raster(int index, int rows, int columns, int group, bool along_n) {
  const int down = along_n ? columns : rows, over = along_n ? rows : columns;
  const int above = index / (group * over) * group;
  const int high = down - above < group ? down - above : group;
  const int rest = index - above * over;
  const int first = above + rest % high, second = rest / high;
  return along_n ? TilePlace{second, first} : TilePlace{first, second};
}

struct Slices {
  int first, count;
};

// Part `part` of `parts` of `slices` slices of K; parts differ by one slice at most, and some are empty where parts
// outnumber slices.
WS_INTEGER Slices slices_of_part(int slices, int parts, int part) {
  const int each = slices / parts, more = slices % parts;
  return {part * each + (part < more ? part : more), each + (part < more)};
}

// Position in a ring of STAGES buffers. `phase` is the parity of the mbarrier phase that the next use completes.
template <int STAGES>
struct RingPosition {
  int stage = 0;
  uint32_t phase = 0;
  WS_INTEGER void advance() {
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }
  WS_INTEGER void advance(int count) {
    const int sum = stage + count;
    stage = sum % STAGES, phase ^= sum / STAGES & 1;
  }
};

// Useful share of the multiply-adds of all waves, per mille: ragged edges and the last wave both count.
WS_INTEGER int wave_permille(int m, int n, int tile_m, int tile_n, int slots) {
  const int64_t tiles = (int64_t)ceil_div(m, tile_m) * ceil_div(n, tile_n);
  const int64_t waves = (tiles + slots - 1) / slots;
  return (int)((int64_t)m * n * 1000 / (waves * slots * tile_m * tile_n));
}

// The width of a tile, a multiple of 16 in `least` ... `most`, that fills waves best; the wider one of equals.
WS_INTEGER int wave_filling_tile_n(int m, int n, int tile_m, int slots, int least, int most) {
  int best = most;
  for (int tile_n = most - 16; tile_n >= least; tile_n -= 16)
    if (wave_permille(m, n, tile_m, tile_n, slots) > wave_permille(m, n, tile_m, best, slots)) best = tile_n;
  return best;
}

}  // namespace ws::sm90
