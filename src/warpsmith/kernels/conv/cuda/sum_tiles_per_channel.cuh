//! Second kernel of a fused sum over places: adds the tiles of each channel in double and in a fixed order, 32 channels
//! a block. $divisor: of the sum.
constexpr int64_t BUNDLES = ws::ceil_div(ALL, (int64_t)32);
__global__ void __launch_bounds__(256) finish(Operands o, const float* sums) {
  __shared__ double parts[8][32];
  const int64_t image = blockIdx.x / BUNDLES, channel = blockIdx.x % BUNDLES * 32 + threadIdx.x % 32;
  const float* const from = sums + image * TILES * ALL + (channel < ALL ? channel : 0);
  double sum = 0.0;
#pragma unroll 8
  for (int64_t i = threadIdx.x / 32; i < TILES; i += 8) sum += from[i * ALL];
  parts[threadIdx.x / 32][threadIdx.x % 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32 || channel >= ALL) return;
  sum = 0.0;
  for (int i = 0; i < 8; i++) sum += parts[i][threadIdx.x];
  const int64_t at[RANK] = {image, channel};
  epilogue<1>(o, {{(float)(sum / ($divisor))}}, at);
}
