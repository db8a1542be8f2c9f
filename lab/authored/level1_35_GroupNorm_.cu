// warpsmith-unit: 1
// Few long groups: each is cut into parts, one block a part takes its moments, a warp a group merges them, and one
// block a part of a channel applies them.
// family: norm   technique: groups split over blocks, merged moments
// tunable: BLOCK = 256 {128, 256, 512}
// tunable: PART = 32768 {16384, 32768, 65536}
#define WORKSPACE_BYTES (in0_shape[0] * 8 * (8 + 12 * ((in0_numel / in0_shape[0] / 8 + PART - 1) / PART)))
#include "task.h"
#include "warpsmith_cuda.h"

// in0: images, in1: weight, in2: bias, of the channels.
static constexpr int64_t BATCH = in0_shape[0], CHANNELS = in0_shape[1], PIXELS = in0_shape[2] * in0_shape[3], GROUPS = 8;
static constexpr int64_t N = CHANNELS / GROUPS * PIXELS, ROWS = BATCH * GROUPS, PARTS = ws::ceil_div(N, PART);
static constexpr int64_t TILES = ws::ceil_div(PIXELS, PART);
static constexpr int UNROLL = 4;
static constexpr int VEC = PIXELS % 4 == 0 ? 4 : 1;
static constexpr float EPSILON = 1e-5f;

// Four neighbours from position i on; 0 from `last` on. Rows whose length is no multiple of 4 are not aligned.
__device__ __forceinline__ void load4(float (&v)[4], const float* x, int64_t i, int64_t last) {
  if constexpr (N % 4 == 0) {
    const ws::Pack<float, 4> four = i < last ? ws::load_pack<4>(x + i) : ws::Pack<float, 4>{};
#pragma unroll
    for (int j = 0; j < 4; j++) v[j] = four.at[j];
  } else {
#pragma unroll
    for (int j = 0; j < 4; j++) v[j] = i + j < last ? x[i + j] : 0.0f;
  }
}

// Count, mean and sum of squared deviations, merged as Chan, Golub and LeVeque do: no cancellation at any offset.
struct Moments {
  float n = 0.0f, mean = 0.0f, m2 = 0.0f;
  __device__ __forceinline__ void merge(float other_n, float other_mean, float other_m2) {
    if (other_n == 0.0f) return;
    const float all = n + other_n, share = other_n / all, d = other_mean - mean;
    mean += d * share;
    m2 += other_m2 + d * d * n * share;
    n = all;
  }
  __device__ __forceinline__ void warp_merge() {
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
      merge(__shfl_down_sync(ws::FULL, n, step), __shfl_down_sync(ws::FULL, mean, step),
            __shfl_down_sync(ws::FULL, m2, step));
  }
};

// The moments of one part of a row, right in the first thread of the block.
__device__ __forceinline__ Moments part_moments(const float* x, int64_t first, int64_t last) {
  __shared__ float partial[3][BLOCK / 32];
  Moments mine;
  for (int64_t i = first + 4 * threadIdx.x; i < last; i += 4 * BLOCK * UNROLL) {
    float v[UNROLL][4], sum = 0.0f, squares = 0.0f;
    int n = 0;
#pragma unroll
    for (int u = 0; u < UNROLL; u++) load4(v[u], x, i + u * 4 * BLOCK, last);
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
#pragma unroll
      for (int j = 0; j < 4; j++)
        if (i + u * 4 * BLOCK + j < last) sum += v[u][j], n++;
    const float mean = sum / n;
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
#pragma unroll
      for (int j = 0; j < 4; j++)
        if (i + u * 4 * BLOCK + j < last) squares += (v[u][j] - mean) * (v[u][j] - mean);
    mine.merge(n, mean, squares);
  }
  mine.warp_merge();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane == 0) partial[0][warp] = mine.n, partial[1][warp] = mine.mean, partial[2][warp] = mine.m2;
  __syncthreads();
  Moments all;
  if (threadIdx.x == 0)
    for (int w = 0; w < BLOCK / 32; w++) all.merge(partial[0][w], partial[1][w], partial[2][w]);
  return all;
}

__global__ void __launch_bounds__(BLOCK) moments(const float* x, float* parts) {
  const int64_t row = blockIdx.x / PARTS, first = blockIdx.x % PARTS * PART;
  const Moments all = part_moments(x + row * N, first, first + PART < N ? first + PART : N);
  if (threadIdx.x == 0) {
    float* to = parts + 3 * (int64_t)blockIdx.x;
    to[0] = all.n, to[1] = all.mean, to[2] = all.m2;
  }
}

// A warp a row: its parts' moments become its mean and its scale.
__global__ void __launch_bounds__(32) finish(const float* parts, float2* rows) {
  Moments all;
  for (int64_t p = threadIdx.x; p < PARTS; p += 32) {
    const float* from = parts + 3 * (blockIdx.x * PARTS + p);
    all.merge(from[0], from[1], from[2]);
  }
  all.warp_merge();
  if (threadIdx.x == 0) rows[blockIdx.x] = make_float2(all.mean, rsqrtf(all.m2 / N + EPSILON));
}

__global__ void __launch_bounds__(BLOCK) normalise(const float* x, const float* weight, const float* bias,
                                                   const float2* rows, float* y) {
  // From the last channel on: what the moments were taken of last may still be in the cache.
  const int64_t block = gridDim.x - 1 - (int64_t)blockIdx.x, image_channel = block / TILES;
  const int64_t channel = image_channel % CHANNELS, first = block % TILES * PART;
  const int64_t last = first + PART < PIXELS ? first + PART : PIXELS;
  const float2 row = rows[image_channel / (CHANNELS / GROUPS)];
  const float scale = row.y * weight[channel], mean = row.x, shift = bias[channel];
  x += image_channel * PIXELS;
  y += image_channel * PIXELS;
  for (int64_t start = first + VEC * threadIdx.x; start < last; start += VEC * BLOCK * UNROLL) {
    ws::Pack<float, VEC> v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
      if (start + u * VEC * BLOCK < last) v[u] = ws::load_pack<VEC>(x + start + u * VEC * BLOCK);
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
#pragma unroll
      for (int j = 0; j < VEC; j++) v[u].at[j] = (v[u].at[j] - mean) * scale + shift;
      if (start + u * VEC * BLOCK < last) ws::store_pack<VEC>(y + start + u * VEC * BLOCK, v[u]);
    }
  }
}

static void unit(const in0_t* x, const in1_t* weight, const in2_t* bias, out0_t* y, void* workspace, void* stream) {
  float2* rows = (float2*)workspace;
  float* parts = (float*)(rows + ROWS);
  cudaStream_t on = (cudaStream_t)stream;
  moments<<<(unsigned)(ROWS * PARTS), BLOCK, 0, on>>>(x, parts);
  finish<<<(unsigned)ROWS, 32, 0, on>>>(parts, rows);
  normalise<<<(unsigned)(BATCH * CHANNELS * TILES), BLOCK, 0, on>>>(x, weight, bias, rows, y);
}
