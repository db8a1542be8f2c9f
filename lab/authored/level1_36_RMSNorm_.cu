// warpsmith-unit: 1
// A thread has one position of the image and all its channels, in registers: each element is read once and written
// once, and as many loads are in flight as there are channels.
// family: norm   technique: channels in registers, one pass
// tunable: BLOCK = 128 {64, 128, 256}
#include "task.h"
#include "warpsmith_cuda.h"

static constexpr int64_t BATCH = in0_shape[0], CHANNELS = in0_shape[1], PIXELS = in0_shape[2] * in0_shape[3];
static constexpr float EPSILON = 1e-5f;
static constexpr bool FITS = CHANNELS <= 96;  // else the channels are read twice

__global__ void __launch_bounds__(BLOCK) rms_norm(const float* x, float* y) {
  const int64_t at = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (at >= BATCH * PIXELS) return;
  const int64_t start = at / PIXELS * CHANNELS * PIXELS + at % PIXELS;
  x += start;
  y += start;
  float squares = 0.0f;
  if constexpr (FITS) {
    float v[CHANNELS];
#pragma unroll
    for (int c = 0; c < CHANNELS; c++) v[c] = __ldcs(x + c * PIXELS);
#pragma unroll
    for (int c = 0; c < CHANNELS; c++) squares += v[c] * v[c];
    const float rms = sqrtf(squares / CHANNELS + EPSILON);
#pragma unroll
    for (int c = 0; c < CHANNELS; c++) __stcs(y + c * PIXELS, v[c] / rms);
  } else {
#pragma unroll 8
    for (int64_t c = 0; c < CHANNELS; c++) squares += x[c * PIXELS] * x[c * PIXELS];
    const float rms = sqrtf(squares / CHANNELS + EPSILON);
#pragma unroll 8
    for (int64_t c = 0; c < CHANNELS; c++) y[c * PIXELS] = x[c * PIXELS] / rms;
  }
}

static void unit(const in0_t* x, out0_t* y, void*, void* stream) {
  rms_norm<<<(unsigned)ws::ceil_div(BATCH * PIXELS, BLOCK), BLOCK, 0, (cudaStream_t)stream>>>(x, y);
}
