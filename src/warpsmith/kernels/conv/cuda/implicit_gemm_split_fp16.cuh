//! Persistent implicit GEMM, fp16 wgmma (sm_90a). A block casts its halo patch of the fp32 input to scaled fp16 in
//! shared memory, held in registers a chunk ahead, and tensor cores read it shifted for every tap; packed weights by
//! bulk copy through an mbarrier ring, or resident where they fit; static tile schedule. Scales are powers of two, one
//! per output channel and one running per patch; sums are rescaled when it grows. TERMS 1: TF32's precision; TERMS 3:
//! 3xfp16 split precision, fp32's. $source: operand of the image; $epilogue: text that takes a tile of results from
//! shared memory.
__global__ void __launch_bounds__(THREADS, RESIDENT) convolve(
    Operands o, const unsigned char* packed, const int* exponents, [[maybe_unused]] char* spare) {
  ws::Barrier* const full = (ws::Barrier*)ws::dynamic_shared(), *const empty = full + RING;
  float* const largest = (float*)(empty + RING);
  int* const powers_of = (int*)(largest + WARPS);
  int* const places = (int*)(ws::dynamic_shared() + HEAD_BYTES);
  unsigned char* const weights = (unsigned char*)places + PLACE_BYTES, *const patch = weights + RING * SLICE_BYTES;
  float* const staged = (float*)patch;  // once the products of a tile are done
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  // A block stays: it makes every so many tiles, of the same channels and phase.
  const int block = blockIdx.x % (unsigned)BLOCKS_OUT, outer = blockIdx.x / (unsigned)BLOCKS_OUT % OUTER;
  const int group = blockIdx.x / (unsigned)(BLOCKS_OUT * OUTER) % (unsigned)GROUPS;
  if (threadIdx.x == 0) {
    for (int s = 0; s < RING; s++) ws::barrier_init(full + s, 1), ws::barrier_init(empty + s, WARPS);
    ws::barrier_ready();
  }
  for (int c = threadIdx.x; c < CHANNELS; c += THREADS) {
    const int64_t channel = (int64_t)block * CHANNELS + c;
    powers_of[c] = channel < OUTS ? exponents[group * OUTS + channel] - 141 : 0;
  }

  constexpr unsigned PACE = ALONG;
  unsigned tile = blockIdx.x / (unsigned)COMBOS;
  const int each = TABLE.slices_of(outer) * CHUNKS, total = KEPT ? each : each * (int)(((unsigned)WORK - tile + PACE - 1) / PACE);
  const unsigned char* const own = packed + ((int64_t)(group * (int)BLOCKS_OUT + block) * ALL_SLICES + TABLE.before(outer) * CHUNKS) * SLICE_BYTES;
  __syncthreads();
  int fetched = 0, next = 0, stage = 0;
  uint32_t phase = 0;
  // One thread asks for the next slice of the weights, once all warps have done with what lies in its place.
  const auto fetch = [&] {
    if (threadIdx.x == 0 && fetched < total) {
      const int to = fetched % RING;
      if (fetched >= RING) ws::barrier_wait(empty + to, (fetched / RING - 1) % 2);
      ws::barrier_expect(full + to, SLICE_BYTES);
      ws::bulk_copy(weights + to * SLICE_BYTES, own + (int64_t)next * SLICE_BYTES, SLICE_BYTES, full + to);
      fetched++, next = next + 1 < each ? next + 1 : 0;
    }
    __syncwarp();
  };
#pragma unroll 1
  for (int i = 0; i < RING - !KEPT; i++) fetch();

  // The tile whose patch is asked for: its first place in the grid, its image.
  int asked_x, asked_y, asked_z, asked_image;
  const float* from;
  // Where the patch's places lie in a channel of the image, of several taps the first one.
  constexpr int OUTSIDE = -0x7fffffff;
  const auto column_of = [&](int place) {
    const int column = place % ROW;
    return asked_x * PACE_W + LOW_W + column % HALF * PACE_W + column / HALF;
  };
  const auto turn_to = [&](unsigned tile) {
    asked_x = tile % (unsigned)TILES_W * TILE_W, asked_y = tile / (unsigned)TILES_W % (unsigned)TILES_H * TILE_H;
    asked_z = tile / (unsigned)(TILES_W * TILES_H) % (unsigned)TILES_D * TILE_D;
    asked_image = tile / (unsigned)(TILES_W * TILES_H * TILES_D);
    from = o.$source + asked_image * JUMP_N + group * INS * JUMP_C;
    for (int i = threadIdx.x; i < PLANE; i += THREADS) {
      const int row = i / ROW, x = column_of(i);
      const int y = asked_y * PACE_H + LOW_H + row % SPAN_H, z = asked_z * PACE_D + LOW_D + row / SPAN_H;
      const bool there = (REACH > 1 || (x >= 0 && x < (int)IW)) && y >= 0 && y < (int)IH && z >= 0 && z < (int)ID;
      places[i] = there ? (int)(z * JUMP_D + y * JUMP_H + x * JUMP_W) : OUTSIDE;
    }
  };
  int exponent;  // of the largest element so far, of which the sums are multiples
  const auto load = [&](float (&x)[8], int item, int chunk) {
    const int plane = item / PLANE, place = places[item % PLANE];
    const bool there = place != OUTSIDE;
    const int first = REACH == 1 ? chunk * DEPTH + plane * 8 : 0;
    const float* const at = from + (there ? place + first * JUMP_C : 0);
    if constexpr (REACH == 1) {
#pragma unroll
      for (int j = 0; j < 8; j++) x[j] = there && (INS % DEPTH == 0 || first + j < INS) ? at[j * JUMP_C] : 0.0f;
    } else {
      const int column = column_of(item % PLANE), taps = LEFT != 0 && plane == CHANNEL_VECTORS - 1 ? LEFT : REACH;
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const int tap = j / FEW, c = j % FEW, x_there = column + tap * LW;
        x[j] = there && tap < taps && c < INS && x_there >= 0 && x_there < (int)IW ? at[tap * LW * JUMP_W + c * JUMP_C] : 0.0f;
      }
    }
  };
  float held[HELD][8];
  const auto ask = [&](int chunk) {
#pragma unroll
    for (int h = 0; h < HELD; h++) {
      const int item = h * THREADS + threadIdx.x;
      if (item < ITEMS) {
        load(held[h], item, chunk);
      } else {
#pragma unroll
        for (int j = 0; j < 8; j++) held[h][j] = 0.0f;
      }
    }
  };
  // The largest element of what is held, or of all of a chunk of the patch but infinities. All threads have the same one; it
  // is a barrier of the block.
  const auto largest_of = [&](int chunk, bool all) {
    float most = 0.0f;
    const auto see = [&](const float (&x)[8]) {
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const float size = fabsf(x[j]);
        most = fmaxf(most, all && size == INFINITY ? 0.0f : size);
      }
    };
#pragma unroll
    for (int h = 0; h < HELD; h++) see(held[h]);
    for (int item = HELD * THREADS + threadIdx.x; all && item < ITEMS; item += THREADS) {
      float x[8];
      load(x, item, chunk);
      see(x);
    }
    most = ws::warp_max(most);
    if (lane == 0) largest[warp] = most;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < WARPS; w++) most = fmaxf(most, largest[w]);
    return most;
  };
  // A chunk of the patch as fp16. The largest element of what this thread did not hold.
  const auto convert = [&](int chunk) {
    const float up = power_of_two(141 - exponent);
#pragma unroll
    for (int h = 0; h < HELD; h++) {
      const int item = h * THREADS + threadIdx.x;
      if (item < ITEMS) store_channel_vector(held[h], up, patch + item * CHANNEL_VECTOR_BYTES, patch + IMAGE_BYTES + item * CHANNEL_VECTOR_BYTES);
    }
    float most = 0.0f;
#pragma unroll 2
    for (int item = HELD * THREADS + threadIdx.x; item < ITEMS; item += THREADS) {
      float x[8];
      load(x, item, chunk);
#pragma unroll
      for (int j = 0; j < 8; j++) most = fmaxf(most, fabsf(x[j]));
      store_channel_vector(x, up, patch + item * CHANNEL_VECTOR_BYTES, patch + IMAGE_BYTES + item * CHANNEL_VECTOR_BYTES);
    }
    ws::shared_stored();
    return most;
  };
  uint64_t pixels[MMA_TILES_M];  // descriptors of what 64 outputs read at the patch's first place
#pragma unroll
  for (int k = 0; k < MMA_TILES_M; k++) {
    const int block_m = warp / 4 * MMA_TILES_M + k, x = block_m % ACROSS, y = block_m / ACROSS % DOWN, z = block_m / (ACROSS * DOWN);
    const int place = (z * PACE_D * SPAN_H + y * (SQUARE ? 8 : 1) * PACE_H) * ROW + x * (SQUARE ? 8 : 64);
    pixels[k] = ws::packed_descriptor(patch + place * CHANNEL_VECTOR_BYTES, 0, SQUARE ? PACE_H * ROW : 8);
  }
  const uint64_t first_weight = ws::packed_descriptor(weights, CHANNELS, 8);
  float sums[INNER][MMA_TILES_M][N];
  // `steps` of a list from `step` on, of the slice of the weights that lies in `stage`.
  const auto multiply = [&](float (&to)[MMA_TILES_M][N], int step, int steps) {
    uint64_t weight = first_weight + stage * (SLICE_BYTES / CHANNEL_VECTOR_BYTES);
    uint32_t where = TABLE.where[step];
    ws::products_begin();
#pragma unroll 1
    for (int i = 0; i < steps; i++) {
      const uint32_t offset = where;
      where = TABLE.where[step + i + 1];
#pragma unroll
      for (int k = 0; k < MMA_TILES_M; k++) {
        const uint64_t pixel = pixels[k] + offset;
        if constexpr (TERMS == 3) {  // small ones first, from zero
          ws::product_64<CHANNELS>(to[k], pixel + ITEMS, weight, i > 0);
          ws::product_64<CHANNELS>(to[k], pixel, weight + 2 * CHANNELS, true);
        }
        ws::product_64<CHANNELS>(to[k], pixel, weight, true);
      }
      weight += STEP_BYTES / CHANNEL_VECTOR_BYTES;
    }
    ws::products_commit();
  };
  turn_to(tile);
  __syncthreads();
  ask(0);
#pragma unroll 1
  for (bool more = true; more;) {
    const int image = asked_image, x0 = asked_x, y0 = asked_y, z0 = asked_z;
    exponent = 15;
#pragma unroll
    for (int inner = 0; inner < INNER; inner++)
#pragma unroll
      for (int k = 0; k < MMA_TILES_M; k++)
#pragma unroll
        for (int i = 0; i < N; i++) sums[inner][k][i] = 0.0f;
    if constexpr (KEPT) stage = 0;
#pragma unroll 1
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
      const int before = exponent;
      const auto raise = [&](int to) { exponent = to > exponent ? to : exponent; };
      const float seen = largest_of(chunk, false);
      if (seen < INFINITY) raise(exponent_of(seen) + ROOM_ABOVE);
      const bool over = seen == INFINITY || exponent_of(convert(chunk)) > exponent;
      // Infinities, or what was not held is much larger than what was. From one lane, so that the compiler sees that warps stay
      // together: where it does not, it lets products wait for each other.
      if (__shfl_sync(ws::FULL, __syncthreads_or(over), 0)) {
        raise(exponent_of(largest_of(chunk, true)));
        convert(chunk);
        __syncthreads();
      }
      if constexpr (CHUNKS > 1) {
        const float down = exponent - before > 126 ? 0.0f : power_of_two(before - exponent);
#pragma unroll
        for (int inner = 0; inner < INNER; inner++)
#pragma unroll
          for (int k = 0; k < MMA_TILES_M; k++)
#pragma unroll
            for (int i = 0; i < N; i++) sums[inner][k][i] *= down;
      }
      if (chunk + 1 < CHUNKS) ask(chunk + 1);
#pragma unroll
      for (int inner = 0; inner < INNER; inner++) {
        const int list = outer * INNER + inner, last = TABLE.first[list + 1];
#pragma unroll 1
        for (int step = TABLE.first[list]; step < last; step += K_STEPS_PER_STAGE) {
          const int steps = last - step < K_STEPS_PER_STAGE ? last - step : K_STEPS_PER_STAGE;
          ws::barrier_wait(full + stage, phase);
          if constexpr (TERMS == 3) {  // tensor cores cut off what they add: short sums, added by the ordinary units
            float some[MMA_TILES_M][N];
            multiply(some, step, steps);
            fetch();
            ws::products_done();
#pragma unroll
            for (int k = 0; k < MMA_TILES_M; k++) {
              ws::sums_done(some[k]);
#pragma unroll
              for (int i = 0; i < N; i++) sums[inner][k][i] += some[k][i];
            }
          } else {
            multiply(sums[inner], step, steps);
            fetch();
            ws::products_done();
#pragma unroll
            for (int k = 0; k < MMA_TILES_M; k++) ws::sums_done(sums[inner][k]);
          }
          if constexpr (KEPT) {
            stage++;
          } else {
            if (lane == 0) ws::barrier_arrive(empty + stage);
            if (++stage == RING) stage = 0, phase ^= 1;
          }
        }
      }
    }

    // Through shared memory, so that neighbouring threads store neighbouring pixels.
    __syncthreads();
#pragma unroll
    for (int j = 0; j < CHANNELS / 8; j++)
#pragma unroll
      for (int odd = 0; odd < 2; odd++) {
        const int channel = 8 * j + 2 * t + odd, power = powers_of[channel] + exponent - 141;
        const float half = power_of_two(power / 2), rest = power_of_two(power - power / 2);
#pragma unroll
        for (int inner = 0; inner < INNER; inner++)
#pragma unroll
          for (int k = 0; k < MMA_TILES_M; k++)
#pragma unroll
            for (int below = 0; below < 2; below++) {
              const int block_m = warp / 4 * MMA_TILES_M + k, row = warp % 4 * 16 + 8 * below + g;
              const int x = block_m % ACROSS * (SQUARE ? 8 : 64) + (SQUARE ? row % 8 : row);
              const int y = block_m / ACROSS * (SQUARE ? 8 : 1) + (SQUARE ? row / 8 : 0);  // of all planes
              staged[channel * STAGED + (y * TILE_W + x) * INNER + inner] = sums[inner][k][4 * j + 2 * below + odd] * half * rest;
            }
      }
    tile += PACE, more = tile < (unsigned)WORK;
    if (more) turn_to(tile);
    __syncthreads();
    if (more) ask(0);  // on its way while results are stored
    {
$epilogue
    }
  }
}
