//! Epilogue of the direct convolution: sums a block's results by channel, warp by warp, for a deterministic second
//! kernel. $value: result after the pointwise chain.
  __shared__ float parts[BLOCK / 32][CHANNELS];
#pragma unroll
  for (int q = 0; q < CHANNELS; q++) {
    at[1] = (int64_t)group * MADE + from + q;
    float sum = 0.0f;
#pragma unroll
    for (int high = 0; high < PART_H; high++)
#pragma unroll
      for (int low = 0; low < PART_W; low++) {
        if (!there(high, low) || (!ALL_THERE && from + q >= MADE)) continue;
        index(z, (int64_t)strip * PART_H + high, (int64_t)across * PART_W + low);
        const ws::Pack<float, 1> made = {{pooled[q][high][low]}};
        sum += $value.at[0];
      }
    sum = ws::warp_sum(sum);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32][q] = sum;
  }
  __syncthreads();
  if (threadIdx.x < CHANNELS && from + (int)threadIdx.x < MADE) {
    float sum = 0.0f;
    for (int i = 0; i < BLOCK / 32; i++) sum += parts[i][threadIdx.x];
    sums[tile * ALL + (int64_t)group * MADE + from + threadIdx.x] = sum;
  }
