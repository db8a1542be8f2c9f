//! Implicit GEMM, TF32 mma.sync (sm_80 on). A halo patch of the input lies in shared memory and every tap reads it
//! shifted, so no im2col; patch and packed weights by cp.async, STAGES deep, fragments double-buffered in registers;
//! one output tile a block; inputs rounded to TF32, fp32 accumulate; 1 to 3 dimensions, plain or transposed, grouped,
//! dilated. $source: operand of the image; $epilogue: text that takes a tile of results from shared memory.
__global__ void __launch_bounds__(THREADS) convolve(Operands o, const uint32_t* packed, [[maybe_unused]] char* spare) {
  uint32_t* const patches = (uint32_t*)ws::dynamic_shared();
  uint32_t* const weights = patches + PATCHES * PATCH;
  int* const places = (int*)(weights + STAGES * SLICE_SIZE);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int warp_m = warp % WARPS_M, warp_n = warp / WARPS_M;
  const unsigned tile = blockIdx.x / (unsigned)(BLOCKS_OUT * OUTER), of_image = tile / (unsigned)(TILES_W * TILES_H * TILES_D);
  const int block = blockIdx.x % (unsigned)BLOCKS_OUT, outer = blockIdx.x / (unsigned)BLOCKS_OUT % OUTER;
  const int x0 = tile % (unsigned)TILES_W * TILE_W, y0 = tile / (unsigned)TILES_W % (unsigned)TILES_H * TILE_H;
  const int z0 = tile / (unsigned)(TILES_W * TILES_H) % (unsigned)TILES_D * TILE_D;
  const int group = of_image % (unsigned)GROUPS, image = of_image / (unsigned)GROUPS;

  // Where the patch's elements lie in a channel of the image; -1: outside.
  for (int i = threadIdx.x; i < PLANE; i += THREADS) {
    const int column = i % ROW, row = i / ROW;
    const int x = x0 * PACE_W + LOW_W + column % HALF * PACE_W + column / HALF;
    const int y = y0 * PACE_H + LOW_H + row % SPAN_H, z = z0 * PACE_D + LOW_D + row / SPAN_H;
    const bool there = x >= 0 && x < (int)IW && y >= 0 && y < (int)IH && z >= 0 && z < (int)ID;
    places[i] = there ? (int)(z * JUMP_D + y * JUMP_H + x * JUMP_W) : -1;
  }
  __syncthreads();
  const float* const from = o.$source + image * JUMP_N + group * INS * JUMP_C;
  const int each = TABLE.slices_of(outer), total = each * CHUNKS;
  const uint32_t* const own = packed + ((int64_t)(group * (int)BLOCKS_OUT + block) * ALL_SLICES + TABLE.before(outer) * CHUNKS) * SLICE_SIZE;
  int fetched = 0, next_chunk = 0, next_slice = 0;
  // The next slice of the weights and, before the first of a chunk, its patch.
  const auto fetch = [&] {
    if (fetched < total) {
      if (next_slice == 0) {
        uint32_t* const to = patches + next_chunk % PATCHES * PATCH;
        const float* const channels = from + next_chunk * (CHUNK * JUMP_C);
        for (int i = threadIdx.x; i < PLANE; i += THREADS) {
          const int place = places[i];
          const float* const first = channels + (place < 0 ? 0 : place);
#pragma unroll
          for (int c = 0; c < CHUNK; c++) {
            const bool real = INS % CHUNK == 0 || next_chunk * CHUNK + c < INS;
            ws::copy_async<4>(to + c * PITCH + i, real ? first + c * JUMP_C : channels, real && place >= 0);
          }
        }
      }
      uint32_t* const to = weights + fetched % STAGES * SLICE_SIZE;
      const uint32_t* const slice = own + (int64_t)fetched * SLICE_SIZE;
#pragma unroll
      for (int i = 0; i < SLICE_SIZE / 4; i += THREADS)
        if (i + THREADS <= SLICE_SIZE / 4 || i + threadIdx.x < SLICE_SIZE / 4)
          ws::copy_async<16>(to + 4 * (i + threadIdx.x), slice + 4 * (i + threadIdx.x), true);
      if (++next_slice == each) next_slice = 0, next_chunk++;
    }
    fetched++;
    ws::copy_commit();
  };

  // A thread rounds what it copied itself to TF32, before the others see it: once for all taps.
  const auto round_patch = [&](uint32_t* patch) {
    for (int i = threadIdx.x; i < PLANE; i += THREADS)
#pragma unroll
      for (int c = 0; c < CHUNK; c++) patch[c * PITCH + i] = ws::tf32(((const float*)patch)[c * PITCH + i]);
  };

  int pixel[MMA_TILES_PER_WARP][2];  // bytes to rows g and g + 8 of a fragment, in the plane of channel t
#pragma unroll
  for (int f = 0; f < MMA_TILES_PER_WARP; f++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int m = (warp_m * MMA_TILES_PER_WARP + f) * 16 + h * 8 + g, y = m / TILE_W % TILE_H, z = m / (TILE_W * TILE_H);
      pixel[f][h] = 4 * ((z * PACE_D * SPAN_H + y * PACE_H) * ROW + m % TILE_W + t * PITCH);
    }
  float sum[INNER][MMA_TILES_PER_WARP][COLUMNS][4] = {};
  // Step s of a list, from `first` in the table: an odd half at the end has no partner.
  const auto load = [&](Fragments& to, int patch, const uint32_t* weight, int first, int halves, int s) {
    const bool whole = QUADS % 2 == 0 || 2 * s + 1 < halves;
    const int h0 = 2 * s, h1 = whole ? h0 + 1 : h0;
    const int at0 = patch + TABLE.at[first + h0 / QUADS] + h0 % QUADS * (16 * PITCH);
    const int at1 = patch + TABLE.at[first + h1 / QUADS] + h1 % QUADS * (16 * PITCH);
    const auto value = [&](int at) { return *(const uint32_t*)((const char*)patches + at); };
#pragma unroll
    for (int f = 0; f < MMA_TILES_PER_WARP; f++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        to.a[f][h] = value(pixel[f][h] + at0);
        to.a[f][h + 2] = whole ? value(pixel[f][h] + at1) : 0u;
      }
#pragma unroll
    for (int n = 0; n < COLUMNS; n += PAIR) {
      const auto values = ws::load_pack<2 * PAIR>(weight + n * 64 + lane * (2 * PAIR));
#pragma unroll
      for (int i = 0; i < 2 * PAIR; i++) to.b[n + i / 2][i % 2] = values.at[i];
    }
  };
  const auto multiply = [&](float (&acc)[MMA_TILES_PER_WARP][COLUMNS][4], const Fragments& of) {
#pragma unroll
    for (int f = 0; f < MMA_TILES_PER_WARP; f++)
#pragma unroll
      for (int n = 0; n < COLUMNS; n++) ws::mma_tf32(acc[f][n], of.a[f], of.b[n]);
  };

#pragma unroll
  for (int i = 0; i < STAGES - 1; i++) fetch();
  int used = 0;
  for (int chunk = 0; chunk < CHUNKS; chunk++) {
    const int patch = chunk % PATCHES * (4 * PATCH);
    bool fresh = true;
#pragma unroll
    for (int inner = 0; inner < INNER; inner++) {
      const int list = outer * INNER + inner, first = TABLE.first[list], halves = TABLE.halves(list), steps = (halves + 1) / 2;
      for (int s = 0; s < steps; s += K_STEPS_PER_STAGE) {
        ws::copy_wait<STAGES - 2>();
        if (fresh) round_patch((uint32_t*)((char*)patches + patch));
        fresh = false;
        __syncthreads();
        fetch();
        const uint32_t* const weight = weights + used++ % STAGES * SLICE_SIZE + warp_n * (COLUMNS * 64);
        if (s + K_STEPS_PER_STAGE <= steps) {  // a step's fragments are loaded while the one before is multiplied
          Fragments now, next;
          load(now, patch, weight, first, halves, s);
#pragma unroll
          for (int i = 0; i < K_STEPS_PER_STAGE; i++) {
            if (i + 1 < K_STEPS_PER_STAGE) load(next, patch, weight + (i + 1) * (8 * CHANNELS), first, halves, s + i + 1);
            multiply(sum[inner], now);
            now = next;
          }
        } else {
#pragma unroll 1
          for (int i = 0; s + i < steps; i++) {
            Fragments now;
            load(now, patch, weight + i * (8 * CHANNELS), first, halves, s + i);
            multiply(sum[inner], now);
          }
        }
      }
    }
  }

  // Through shared memory, so that neighbouring threads store neighbouring pixels.
  ws::copy_wait<0>();
  __syncthreads();
  float* const staged = (float*)patches;
#pragma unroll
  for (int inner = 0; inner < INNER; inner++)
#pragma unroll
    for (int f = 0; f < MMA_TILES_PER_WARP; f++)
#pragma unroll
      for (int n = 0; n < COLUMNS; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
          const int m = (warp_m * MMA_TILES_PER_WARP + f) * 16 + g + i / 2 * 8, channel = (warp_n * COLUMNS + n) * 8 + 2 * t + i % 2;
          staged[channel * STAGED + m * INNER + inner] = sum[inner][f][n][i];
        }
  __syncthreads();
  {
$epilogue
  }
}
