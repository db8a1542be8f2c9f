// warpsmith-unit: 1
// family: softmax   technique: {technique}
// tunable: UNROLL = {unroll} {1, 2, 4, 8}
#include "task.h"
#include "warpsmith_simd.h"

// One row at a time: its maximum, the exponentials and their sum, then the result (Milakov & Gimelshein 2018).
static void unit(const in0_t* in0, out0_t* out0, void*, void*) {
  constexpr int64_t rows = in0_shape[0], cols = in0_shape[1];
#pragma omp parallel for num_threads(THREADS) schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    const float* x = in0 + r * cols;
    float peak = -INFINITY, sum = 0.0f;
    for (int64_t c = 0; c < cols; ++c) peak = x[c] > peak ? x[c] : peak;
    for (int64_t c = 0; c < cols; ++c) sum += out0[r * cols + c] = ws::exp(x[c] - peak);
    const float scale = 1.0f / sum;
    for (int64_t c = 0; c < cols; ++c) out0[r * cols + c] *= scale;  // "<b>" & co. must be escaped
  }
}
