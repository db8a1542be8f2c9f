//! Image packing for the warp-specialised implicit GEMM: reads fp32 NCHW of any strides, writes zero-padded NC/8HWC8
//! fp16 with a power-of-two scale per image. `cast_to_fp16` takes the scale from a sample; `rescale` casts again where the sample
//! underestimated the range. $source: operand of the image.

// The exponent of an image's scale, from a sample of it: all blocks find the same one.
constexpr int ABOVE_SAMPLE = 4;  // powers of two that others may be larger by
__device__ __forceinline__ float finite_size(float x) {
  const float size = fabsf(x);
  return size < INFINITY ? size : 0.0f;
}
__device__ __forceinline__ int sampled_exponent(const float* image) {
  constexpr int64_t PIXELS = ID * IH * IW, ALL_INS = INS * GROUPS;
  float most = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int64_t channel = i * ALL_INS / 8, pixel = (PIXELS / 2 + threadIdx.x) % PIXELS;
    const int64_t x = pixel % IW, y = pixel / IW % IH, z = pixel / (IW * IH);
    most = fmaxf(most, finite_size(image[channel * JUMP_C + z * JUMP_D + y * JUMP_H + x * JUMP_W]));
  }
  const int found = exponent_of(ws::block_max(most)) + ABOVE_SAMPLE;
  return found < 254 ? found : 254;
}
// A part of an image's channel vectors as fp16. The largest finite element of it.
__device__ __forceinline__ float cast_part_to_fp16(const float* image, int64_t number, int64_t part, int exponent, unsigned char* image_vectors) {
  const float up = power_of_two(141 - exponent);
  float most = 0.0f;
#pragma unroll 2
  for (int i = threadIdx.x; i < PART; i += 256) {
    const int item = (int)(part * PART) + i, plane = item / (int)CELLS, cell = item % (int)CELLS;
    if (plane >= PLANES) break;
    const int kind = plane % CLASSES, channel_vector = plane / CLASSES % (CHUNKS * CHANNEL_VECTORS), group = plane / (CLASSES * CHUNKS * CHANNEL_VECTORS);
    const int x = cell % (int)CELLS_W * PACE_W + kind % PACE_W + LOW_W;
    const int y = cell / (int)CELLS_W % (int)CELLS_H * PACE_H + kind / PACE_W % PACE_H + LOW_H;
    const int z = cell / (int)(CELLS_W * CELLS_H) * PACE_D + kind / (PACE_W * PACE_H) + LOW_D;
    const bool there = x >= 0 && x < (int)IW && y >= 0 && y < (int)IH && z >= 0 && z < (int)ID;
    const float* const at = image + (there ? (group * INS + channel_vector * 8) * JUMP_C + z * JUMP_D + y * JUMP_H + x * JUMP_W : 0);
    float of[8];
#pragma unroll
    for (int j = 0; j < 8; j++) of[j] = there && (INS % CHUNK == 0 || channel_vector * 8 + j < INS) ? at[j * JUMP_C] : 0.0f;
#pragma unroll
    for (int j = 0; j < 8; j++) most = fmaxf(most, finite_size(of[j]));
    unsigned char* const to = image_vectors + (plane * LINE + number * CELLS + cell) * CHANNEL_VECTOR_BYTES;
    store_channel_vector(of, up, to, to);
  }
  return ws::block_max(most);
}
// `sampled`: of each image; `peaks`: of each part; `tile_counter`: see `convolve`.
__global__ void __launch_bounds__(256) cast_to_fp16(Operands o, unsigned char* image_vectors, int* sampled, int* peaks, int* tile_counter) {
  for (int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x; i < COMBOS; i += (int64_t)gridDim.x * 256) tile_counter[i] = 0;
  const int64_t number = blockIdx.x / PARTS, part = blockIdx.x % PARTS;
  if (number >= IMAGES) {  // what lies behind the last cell of each plane
    const int64_t first = (blockIdx.x - IMAGES * PARTS) * PART;
    for (int64_t i = first + threadIdx.x; i < first + PART && i < (LINE - TOTAL) * PLANES; i += 256) {
      const int64_t plane = i / (LINE - TOTAL), cell = TOTAL + i % (LINE - TOTAL);
      ws::store_pack<4>((uint32_t*)(image_vectors + (plane * LINE + cell) * CHANNEL_VECTOR_BYTES), ws::Pack<uint32_t, 4>{});
    }
    return;
  }
  const float* const image = o.$source + number * JUMP_N;
  const int exponent = sampled_exponent(image), peak = exponent_of(cast_part_to_fp16(image, number, part, exponent, image_vectors));
  if (threadIdx.x == 0) peaks[blockIdx.x] = peak;
  if (threadIdx.x == 0 && part == 0) sampled[number] = exponent;
}
// Once more where an element is larger than the sample told.
__global__ void __launch_bounds__(256) rescale(Operands o, unsigned char* image_vectors, const int* sampled, const int* peaks, int* exponents) {
  const int64_t number = blockIdx.x / RESCALE_BLOCKS, own = blockIdx.x % RESCALE_BLOCKS;
  float found = 0.0f;
  for (int64_t i = threadIdx.x; i < PARTS; i += 256) found = fmaxf(found, (float)peaks[number * PARTS + i]);
  const int most = (int)ws::block_max(found), exponent = most > sampled[number] ? most : sampled[number];
  if (threadIdx.x == 0 && own == 0) exponents[number] = exponent;
  if (most <= sampled[number]) return;
  for (int64_t part = own; part < PARTS; part += RESCALE_BLOCKS) cast_part_to_fp16(o.$source + number * JUMP_N, number, part, exponent, image_vectors);
}
