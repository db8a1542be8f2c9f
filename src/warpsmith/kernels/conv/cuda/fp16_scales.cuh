//! Power-of-two scales for fp16: exponent of the largest element, cast of 8 terms to scaled fp16 (with a residual where
//! TERMS is 3), and the kernel `powers`, which finds one exponent per output channel of the weights, a block a channel.
//! $weight: an element of the weight.
__device__ __forceinline__ float power_of_two(int n) {  // n from -126 to 127
  const uint32_t bits = (uint32_t)(127 + n) << 23;
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
// Of the largest finite element: its exponent, biased as floats have it; times 2^(141 - exponent) it lies in [2^14, 2^15).
__device__ __forceinline__ int exponent_of(float largest) {
  uint32_t bits;
  memcpy(&bits, &largest, 4);
  return bits >> 23 > 15 ? (int)(bits >> 23) : 15;
}
// Eight terms as fp16, and what is left of them.
__device__ __forceinline__ void store_channel_vector(const float (&x)[8], float up, unsigned char* high, [[maybe_unused]] unsigned char* low) {
  ws::Pack<uint32_t, 4> all, rest;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float a = x[2 * i] * up, b = x[2 * i + 1] * up;
    all.at[i] = ws::two_halves(a, b);
    ws::Pack<__half, 2> both;
    memcpy(&both, &all.at[i], 4);
    if constexpr (TERMS == 3) rest.at[i] = ws::two_halves(a - __half2float(both.at[0]), b - __half2float(both.at[1]));
  }
  ws::store_pack<4>((uint32_t*)high, all);
  if constexpr (TERMS == 3) ws::store_pack<4>((uint32_t*)low, rest);
}

// The exponents of the weights' largest elements: a block an output channel.
__global__ void __launch_bounds__(128) powers(Operands o, int* exponents) {
  const int64_t out = blockIdx.x % OUTS, group = blockIdx.x / OUTS;
  float most = 0.0f;
  for (int64_t i = threadIdx.x; i < INS * TAPS; i += 128) {
    const int64_t in = i / TAPS;
    [[maybe_unused]] const int number = i % TAPS, kd = number / (KH * KW), kh = number / KW % KH, kw = number % KW;
    const float size = fabsf(ws::load_as($weight));
    most = fmaxf(most, size < INFINITY ? size : 0.0f);
  }
  most = ws::block_max(most);
  if (threadIdx.x == 0) exponents[blockIdx.x] = exponent_of(most);
}
