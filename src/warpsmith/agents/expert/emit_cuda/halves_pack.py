"""CUDA C++ of `halves` and `flat`: scales, octets of halves, and the kernels that scale the weights (SCALES) and pack them."""

from .implicit_text import OF_SLICE

SCALES = """\
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
// Eight terms as halves, and what is left of them.
__device__ __forceinline__ void store_octet(const float (&x)[8], float up, unsigned char* high, [[maybe_unused]] unsigned char* low) {
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
    const float size = fabsf(ws::load_as(@WEIGHT));
    most = fmaxf(most, size < INFINITY ? size : 0.0f);
  }
  most = ws::block_max(most);
  if (threadIdx.x == 0) exponents[blockIdx.x] = exponent_of(most);
}
"""

_PACK = """
// The weights as the tensor cores read them, as halves: a block a slice, in the order in which they are used.
__global__ void __launch_bounds__(256) pack(Operands o, unsigned char* packed, const int* exponents) {
@OF_SLICE
  for (int i = threadIdx.x; i < SLICE * 2 * CHANNELS; i += 256) {
    const int step = slice * SLICE + i / (2 * CHANNELS), half = i / CHANNELS % 2;
    const int64_t out = block % BLOCKS_OUT * CHANNELS + i % CHANNELS, group = block / BLOCKS_OUT;
    const int octet = step < TABLE.steps(list) ? TABLE.octet[2 * (TABLE.first[list] + step) + half] : -1;
    float x[8] = {}, up = 1.0f;
    if (octet >= 0 && out < OUTS) {
      up = power_of_two(141 - exponents[group * OUTS + out]);
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const int64_t in = REACH == 1 ? (int64_t)chunk * DEPTH + octet % OCTETS * 8 + j : j % FEW;
        const int number = octet / OCTETS, further = j / FEW;
        [[maybe_unused]] const int kd = number / (KH * KW), kh = number / KW % KH, kw = number % KW + further;
        if (in < INS && kw < KW) x[j] = ws::load_as(@WEIGHT);
      }
    }
    unsigned char* const to = packed + (int64_t)blockIdx.x * SLICE_BYTES + i / (2 * CHANNELS) * STEP_BYTES + i % (2 * CHANNELS) * OCTET;
    store_octet(x, up, to, to + STEP_BYTES / 2);
  }
}
"""
PACK = SCALES + _PACK.replace("@OF_SLICE\n", OF_SLICE)
