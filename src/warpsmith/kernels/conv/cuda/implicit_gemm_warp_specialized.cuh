//! Persistent, warp-specialised implicit GEMM (sm_90a wgmma). Input pre-packed once to NC/8HWC8 fp16 with a
//! power-of-two scale per image; one producer warp per consumer group fills mbarrier rings of patches and weight slices
//! by bulk copy, weights stay resident where they fit; atomic tile scheduler per phase and block of channels; fp32
//! accumulate; results leave through shared memory, a warpgroup by itself. 1 to 3 dimensions, plain or transposed,
//! grouped, dilated. $epilogue: text that takes results from there.

__global__ void __launch_bounds__(THREADS, MIN_BLOCKS_PER_SM) convolve(
    Operands o, const unsigned char* packed, const unsigned char* image_vectors, const int* exponents, const int* of_images, int* tile_counter) {
  // Of slices of the weights: full, empty. Of patches: patch_full, patch_empty.
  ws::Barrier* const full = (ws::Barrier*)ws::dynamic_shared(), *const empty = full + RING;
  float* const channel_scale_bias = (float*)(full + BARRIERS);  // of each channel its scale and its bias
  int* const all_tiles = (int*)(channel_scale_bias + 2 * CHANNELS);
  unsigned char* const weights = ws::dynamic_shared() + HEAD_BYTES, *const all_patches = weights + RING * SLICE_BYTES;
  // From one lane, so that the compiler sees that warps stay together: where it does not, it lets products wait.
  const int lane = threadIdx.x % 32, warp = __shfl_sync(ws::FULL, (int)threadIdx.x / 32, 0), g = lane / 4, t = lane % 4;
  // A block stays, at tiles of the same channels and phase. Whoever is free takes the next one, so that tiles under way at
  // the same time are neighbours: what they store comes to memory in long runs.
  const int block = blockIdx.x % (unsigned)BLOCKS_OUT, outer = blockIdx.x / (unsigned)BLOCKS_OUT % OUTER;
  const int group = blockIdx.x / (unsigned)(BLOCKS_OUT * OUTER) % (unsigned)GROUPS;
  const int consumer = warp < WARPS ? warp / (4 * WARPGROUPS_PER_CONSUMER) : warp - WARPS, own = warp / 4 % WARPGROUPS_PER_CONSUMER;  // a warpgroup of the consumer group
  ws::Barrier* const patch_full = empty + RING + consumer * 2 * LIVE, *const patch_empty = patch_full + LIVE;
  unsigned char* const patches = all_patches + consumer * LIVE * PATCH_BYTES;
  int* const tiles = all_tiles + consumer * LIVE;  // of each patch
  if (threadIdx.x == 0) {
    for (int s = 0; s < RING; s++) ws::barrier_init(full + s, 1), ws::barrier_init(empty + s, WARPS);
    for (int s = 0; s < CONSUMER_GROUPS_USED * LIVE; s++) {
      ws::Barrier* const consumer_barrier = empty + RING + s / LIVE * 2 * LIVE + s % LIVE;
      ws::barrier_init(consumer_barrier, 1), ws::barrier_init(consumer_barrier + LIVE, 4 * WARPGROUPS_PER_CONSUMER);
    }
    ws::barrier_ready();
  }
  for (int c = threadIdx.x; c < CHANNELS; c += THREADS) {
    const int64_t channel = (int64_t)block * CHANNELS + c;
    channel_scale_bias[2 * c] = power_of_two(channel < OUTS ? exponents[group * OUTS + channel] - 141 : 0);
    channel_scale_bias[2 * c + 1] = channel < OUTS ? bias_of(o, group * OUTS + channel) : 0.0f;
  }
  __syncthreads();
  const int first_band = BANDS.first[outer], last_band = BANDS.first[outer + 1], bands = last_band - first_band;
  int stage = 0, patch = 0;
  uint32_t phase = 0, patch_phase = 0;
  if (warp >= WARPS) {  // a producer warp of each consumer group asks for what the others multiply
    const unsigned char* const own_weights = packed + ((int64_t)(group * (int)BLOCKS_OUT + block) * ALL_STEPS + steps_before(outer)) * CHUNKS * STEP_BYTES;
    const unsigned char* next = own_weights;
    int slices = 0;
    const auto fetch_weights = [&](int band) {
#pragma unroll 1
      for (int list = band * INNER; list < (band + 1) * INNER; list++)
#pragma unroll 1
        for (int step = TABLE.first[list]; step < TABLE.first[list + 1]; step += K_STEPS_PER_STAGE) {
          const int bytes = (TABLE.first[list + 1] - step < K_STEPS_PER_STAGE ? TABLE.first[list + 1] - step : K_STEPS_PER_STAGE) * STEP_BYTES;
          ws::barrier_wait(empty + stage, phase ^ 1);
          ws::barrier_expect(full + stage, bytes);
          ws::bulk_copy(weights + stage * SLICE_BYTES, next, bytes, full + stage);
          next += bytes;
          slices++;
          if (++stage == RING) stage = 0, phase ^= 1;
        }
    };
    if (KEPT && consumer == 0 && lane == 0)
      for (int i = 0; i < CHUNKS * bands; i++) fetch_weights(first_band + i % bands);
    int* const of_combo = tile_counter + blockIdx.x % (unsigned)COMBOS;
    int ahead = lane == 0 ? atomicAdd(of_combo, 1) : 0;
    for (;;) {
      const int tile = __shfl_sync(ws::FULL, ahead, 0), most = tile < (int)WORK && bands > 0 ? CHUNKS * bands : 1;
      if (lane == 0 && tile < (int)WORK) ahead = atomicAdd(of_combo, 1);
      next = own_weights;
#pragma unroll 1
      for (int i = 0; i < most; i++) {
        const bool copies = tile < (int)WORK && bands > 0;
        ws::barrier_wait(patch_empty + patch, patch_phase ^ 1);
        if (lane == 0) tiles[patch] = tile;
        if (lane == 0 && !copies) ws::barrier_arrive(patch_full + patch);
        if (copies) {
          const int chunk = i / bands, band = first_band + i % bands;
          const int64_t plane = (int64_t)(group * CHUNKS + chunk) * CHANNEL_VECTORS * CLASSES + BANDS.kind[band];
          const unsigned char* const from = image_vectors + (plane * LINE + (int64_t)tile * ROWS + BANDS.start[band]) * CHANNEL_VECTOR_BYTES;
          unsigned char* const to = patches + patch * PATCH_BYTES;
          if (lane == 0) ws::barrier_expect(patch_full + patch, PATCH_BYTES);
          __syncwarp();
          for (int p = lane; p < CHANNEL_VECTORS * NEAR; p += 32)
            ws::bulk_copy(to + p * LENGTH * CHANNEL_VECTOR_BYTES, from + (p / NEAR * CLASSES + p % NEAR) * LINE * CHANNEL_VECTOR_BYTES, LENGTH * CHANNEL_VECTOR_BYTES, patch_full + patch);
          if (!KEPT && lane == 0) fetch_weights(band);
        }
        if (++patch == LIVE) patch = 0, patch_phase ^= 1;
      }
      if (tile >= (int)WORK) break;
    }
    if (KEPT && consumer == 0 && lane == 0)  // who leaves has everything
      for (int s = 0; s < slices; s++) ws::barrier_wait(full + s, 0);
    return;
  }

  const uint64_t first_weight = ws::packed_descriptor(weights, CHANNELS, 8);
  const uint64_t first_cell = ws::packed_descriptor(patches + own * (64 * MMA_TILES_M) * CHANNEL_VECTOR_BYTES, 0, 8);
  float* const mine = (float*)(all_patches + CONSUMER_GROUPS_USED * LIVE * PATCH_BYTES + warp / 4 * STAGED_BYTES);
  int held = -1, held_patch = -1;  // what products under way read
  const auto release = [&] {
    if (!KEPT && held >= 0 && lane == 0) ws::barrier_arrive(empty + held);
    if (held_patch >= 0 && lane == 0) ws::barrier_arrive(patch_empty + held_patch);
    held = held_patch = -1;
  };
#pragma unroll 1
  for (;;) {
    ws::barrier_wait(patch_full + patch, patch_phase);
    const int tile = __shfl_sync(ws::FULL, lane == 0 ? tiles[patch] : 0, 0);
    if (tile >= (int)WORK) break;
    if (bands == 0) {  // a phase without taps: nothing but the bias
      if (lane == 0) ws::barrier_arrive(patch_empty + patch);
      if (++patch == LIVE) patch = 0, patch_phase ^= 1;
    }
    float sums[INNER][MMA_TILES_M][N];
#pragma unroll
    for (int inner = 0; inner < INNER; inner++)
#pragma unroll
      for (int k = 0; k < MMA_TILES_M; k++)
#pragma unroll
        for (int i = 0; i < N; i++) sums[inner][k][i] = 0.0f;
    if constexpr (KEPT) stage = 0;
#pragma unroll 1
    for (int chunk = 0; chunk < CHUNKS; chunk++)
#pragma unroll 1
      for (int band = first_band; band < last_band; band++) {
        ws::barrier_wait(patch_full + patch, patch_phase);
        const uint64_t cell = first_cell + patch * (PATCH_BYTES / CHANNEL_VECTOR_BYTES);
#pragma unroll
        for (int inner = 0; inner < INNER; inner++) {
          const int last = TABLE.first[band * INNER + inner + 1];
#pragma unroll 1
          for (int step = TABLE.first[band * INNER + inner]; step < last;) {
            const int end = last - step < K_STEPS_PER_STAGE ? last : step + K_STEPS_PER_STAGE;
            uint64_t weight = first_weight + stage * (SLICE_BYTES / CHANNEL_VECTOR_BYTES);
            uint32_t where = TABLE.where[step];
            ws::barrier_wait(full + stage, phase);
            ws::products_begin();
#pragma unroll 1
            for (; step < end; step++) {
              const uint64_t from = cell + where;
              where = TABLE.where[step + 1];
#pragma unroll
              for (int k = 0; k < MMA_TILES_M; k++) ws::product_64<CHANNELS>(sums[inner][k], from + 64 * k, weight, true);
              weight += STEP_BYTES / CHANNEL_VECTOR_BYTES;
            }
            ws::products_commit();
            ws::products_left<1>();
            release();
            held = stage++;
            if (!KEPT && stage == RING) stage = 0, phase ^= 1;
          }
        }
        held_patch = patch;
        if (++patch == LIVE) patch = 0, patch_phase ^= 1;
      }
    ws::products_done();
    release();

    // Through shared memory, a warpgroup for itself, so that neighbouring threads store neighbouring cells.
    const int me = threadIdx.x % 128;
#pragma unroll
    for (int inner = 0; inner < INNER; inner++)
#pragma unroll
      for (int k = 0; k < MMA_TILES_M; k++) ws::sums_done(sums[inner][k]);
    // What stores them is there once: it may be long, and sums stay in registers only where all their numbers are known.
#pragma unroll 1
    for (int pass = 0; pass < MMA_TILES_M * PASSES; pass++) {
      const int row0 = tile * ROWS + (own * MMA_TILES_M + pass / PASSES) * 64, first = pass % PASSES * ABREAST;
      float up[2];  // an image's scale; times a channel's it is a float where products of their largest elements are
#pragma unroll
      for (int below = 0; below < 2; below++) {
        const int image = (row0 + warp % 4 * 16 + 8 * below + g) / (int)CELLS;
        up[below] = power_of_two(of_images[image < (int)IMAGES ? image : 0] - 141);
      }
      ws::warpgroup_sync();
#pragma unroll
      for (int p = 0; p < MMA_TILES_M * PASSES; p++) {
        if (p != pass) continue;
#pragma unroll
        for (int j = 0; j < ABREAST / 8; j++) {
          const int c = 8 * j + 2 * t;
          const ws::Pack<float, 4> scale_bias = ws::load_pack<4>(channel_scale_bias + 2 * (first + c));
#pragma unroll
          for (int odd = 0; odd < 2; odd++)
#pragma unroll
            for (int below = 0; below < 2; below++)
#pragma unroll
              for (int inner = 0; inner < INNER; inner++) {
                const float sum = sums[inner][p / PASSES][4 * (p % PASSES * (ABREAST / 8) + j) + 2 * below + odd];
                const int place = (c + odd) * PITCH + (warp % 4 * 16 + 8 * below + g) * INNER + inner;
                mine[place] = sum * (scale_bias.at[2 * odd] * up[below]) + scale_bias.at[2 * odd + 1];
              }
        }
      }
      ws::warpgroup_sync();
$epilogue
    }
  }
}
