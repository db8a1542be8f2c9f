//! Weight packing for the TF32 implicit GEMM: reads weights of any strides, rounds to TF32, stores them in mma.sync
//! fragment order, one block a K slice. $slice_of_block: implicit_gemm_slice_of_block.cuh; $weight: an element of the
//! weight.
// The weights as the tensor cores read them, rounded to TF32: a block a slice, in the order in which they are used.
__global__ void __launch_bounds__(256) pack(Operands o, uint32_t* packed) {
$slice_of_block
  for (int i = threadIdx.x; i < SLICE_SIZE; i += 256) {
    const int step = slice * K_STEPS_PER_STAGE + i / (8 * CHANNELS), place = i % (8 * CHANNELS);
    const int lane = place / (2 * PAIR) % 32, column = place / (64 * PAIR) * PAIR + place % (2 * PAIR) / 2;
    const int half = 2 * step + place % 2;
    const int64_t in = (int64_t)chunk * CHUNK + half % QUADS * 4 + lane % 4;
    const int64_t out = block % BLOCKS_OUT * CHANNELS + column * 8 + lane / 4, group = block / BLOCKS_OUT;
    float value = 0.0f;
    if (half < TABLE.halves(list) && in < INS && out < OUTS) {
      const int number = TABLE.number[TABLE.first[list] + half / QUADS];
      [[maybe_unused]] const int kd = number / (KH * KW), kh = number / KW % KH, kw = number % KW;
      value = ws::load_as($weight);
    }
    packed[(int64_t)blockIdx.x * SLICE_SIZE + i] = ws::tf32(value);
  }
}
