//! Accumulation over the taps for BLOCK output channels: a loaded vector is multiplied by the weight of each channel.
const float* weight = weights + (g * BLOCKS + b) * TAPS * BLOCK;
for (int64_t c = 0; c < IC * KD; ++c)
  for (int64_t kh = 0; kh < KH; ++kh)
    for (int64_t kw = 0; kw < KW; ++kw, weight += BLOCK) {
      const float* const x = packed + c * PLANE + (kh * DH % SH * SW + kw * DW % SW) * PHASE
                             + kh * DH / SH * PITCH + kw * DW / SW + i;
      ws::vf v[vectors];
#pragma GCC unroll 16
      for (int u = 0; u < vectors; ++u) v[u] = ws::held(ws::load(x + u * VEC));
#pragma GCC unroll 16
      for (int o = 0; o < BLOCK; ++o) {
        const ws::vf one = ws::splat(weight[o]);
#pragma GCC unroll 16
        for (int u = 0; u < vectors; ++u) acc[o][u] += v[u] * one;
      }
    }
