//! Accumulation over the taps for BLOCK output rows of one channel: a loaded vector serves every row whose window covers it.
for (int64_t c = 0; c < IC * KD; ++c) {
  const float* const x = packed + c * PLANE + base * PITCH + i;
  const float* const weight = weights + (channel * IC * KD + c) * KH * KW;
#pragma GCC unroll 1  // a column of weights at a time fits the registers beside the sums
  for (int64_t kw = 0; kw < KW; ++kw) {
    const float* const column = x + kw * DW % SW * PHASE + kw * DW / SW;
#pragma GCC unroll 64
    for (int64_t y = 0; y < (BLOCK - 1) * SH + (KH - 1) * DH + 1; ++y) {
      ws::vf v[vectors];
#pragma GCC unroll 16
      for (int u = 0; u < vectors; ++u)
        v[u] = ws::held(ws::load(column + y % SH * SW * PHASE + y / SH * PITCH + u * VEC));
#pragma GCC unroll 16
      for (int o = 0; o < BLOCK; ++o) {
        const int64_t k = y - o * SH;
        if (k < 0 || k % DH != 0 || k / DH >= KH) continue;
        const ws::vf one = ws::splat(weight[k / DH * KW + kw]);
#pragma GCC unroll 16
        for (int u = 0; u < vectors; ++u) acc[o][u] += v[u] * one;
      }
    }
  }
}
