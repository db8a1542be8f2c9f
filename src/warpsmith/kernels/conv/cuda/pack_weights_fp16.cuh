//! Weight packing for the warp-specialised implicit GEMM: scaled to fp16 by channel, stored as wgmma core matrices in
//! the order of use, one block a K step. $weight: an element of the weight.

// The weights as the tensor cores read them, as fp16: a block a step, in the order in which they are used.
__global__ void __launch_bounds__(256) pack(Operands o, unsigned char* packed, const int* exponents) {
  const int64_t all = blockIdx.x % (ALL_STEPS * CHUNKS), of_block = blockIdx.x / (ALL_STEPS * CHUNKS);
  int outer = 0;
  while (outer < OUTER - 1 && all >= (int64_t)steps_before(outer + 1) * CHUNKS) outer++;
  const int from = steps_before(outer), each = steps_before(outer + 1) - from, one = (int)all - from * CHUNKS;
  const int chunk = one / each, step = from + one % each;
  for (int i = threadIdx.x; i < 2 * CHANNELS; i += 256) {
    const int64_t out = of_block % BLOCKS_OUT * CHANNELS + i % CHANNELS, group = of_block / BLOCKS_OUT;
    const int channel_vector = TABLE.channel_vector[2 * step + i / CHANNELS];
    float x[8] = {}, up = 1.0f;
    if (channel_vector >= 0 && out < OUTS) {
      up = power_of_two(141 - exponents[group * OUTS + out]);
      const int number = channel_vector / CHANNEL_VECTORS;
      [[maybe_unused]] const int kd = number / (KH * KW), kh = number / KW % KH, kw = number % KW;
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const int64_t in = (int64_t)chunk * CHUNK + channel_vector % CHANNEL_VECTORS * 8 + j;
        if (in < INS) x[j] = ws::load_as($weight);
      }
    }
    unsigned char* const to = packed + (int64_t)blockIdx.x * STEP_BYTES + i * CHANNEL_VECTOR_BYTES;
    store_channel_vector(x, up, to, to);
  }
}
