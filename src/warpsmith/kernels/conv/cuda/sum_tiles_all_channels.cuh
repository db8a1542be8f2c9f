//! Second kernel of a fused sum over places and channels: adds all tiles of an image in double and in a fixed order, a
//! block an image. $divisor: of the sum.
__global__ void __launch_bounds__(256) finish(Operands o, const float* sums) {
  __shared__ double parts[256];
  const int64_t image = blockIdx.x;
  const float* const from = sums + image * TILES * ALL;
  double sum = 0.0;
#pragma unroll 8
  for (int64_t i = threadIdx.x; i < TILES * ALL; i += 256) sum += from[i];
  parts[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = 0.0;
  for (int i = 0; i < 8; i++) sum += parts[threadIdx.x + 32 * i];
  sum = ws::warp_sum(sum);
  const int64_t at[RANK] = {image};
  if (threadIdx.x == 0) epilogue<1>(o, {{(float)(sum / ($divisor))}}, at);
}
