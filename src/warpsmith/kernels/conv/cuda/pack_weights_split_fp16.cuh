//! Weight packing for the fp16 wgmma implicit GEMM: scaled to fp16 by channel (with residuals where TERMS is 3), stored
//! as wgmma core matrices in the order of use, one block a K slice. $slice_of_block: implicit_gemm_slice_of_block.cuh;
//! $weight: an element.

// The weights as the tensor cores read them, as fp16: a block a slice, in the order in which they are used.
__global__ void __launch_bounds__(256) pack(Operands o, unsigned char* packed, const int* exponents) {
$slice_of_block
  for (int i = threadIdx.x; i < K_STEPS_PER_STAGE * 2 * CHANNELS; i += 256) {
    const int step = slice * K_STEPS_PER_STAGE + i / (2 * CHANNELS), half = i / CHANNELS % 2;
    const int64_t out = block % BLOCKS_OUT * CHANNELS + i % CHANNELS, group = block / BLOCKS_OUT;
    const int channel_vector = step < TABLE.steps(list) ? TABLE.channel_vector[2 * (TABLE.first[list] + step) + half] : -1;
    float x[8] = {}, up = 1.0f;
    if (channel_vector >= 0 && out < OUTS) {
      up = power_of_two(141 - exponents[group * OUTS + out]);
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const int64_t in = REACH == 1 ? (int64_t)chunk * DEPTH + channel_vector % CHANNEL_VECTORS * 8 + j : j % FEW;
        const int number = channel_vector / CHANNEL_VECTORS, further = j / FEW;
        [[maybe_unused]] const int kd = number / (KH * KW), kh = number / KW % KH, kw = number % KW + further;
        if (in < INS && kw < KW) x[j] = ws::load_as($weight);
      }
    }
    unsigned char* const to = packed + (int64_t)blockIdx.x * SLICE_BYTES + i / (2 * CHANNELS) * STEP_BYTES + i % (2 * CHANNELS) * CHANNEL_VECTOR_BYTES;
    store_channel_vector(x, up, to, to + STEP_BYTES / 2);
  }
}
