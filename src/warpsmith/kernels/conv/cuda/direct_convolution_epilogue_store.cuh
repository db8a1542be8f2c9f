//! Epilogue of the direct convolution: stores pooled results of a thread, neighbours as one vector.
  constexpr int PACKED = common(ENDS_W, PART_W, 16 / (int)sizeof(out0_t));
#pragma unroll
  for (int q = 0; q < CHANNELS; q++) {
    if (!ALL_THERE && from + q >= MADE) continue;
    at[1] = (int64_t)group * MADE + from + q;
#pragma unroll
    for (int high = 0; high < PART_H; high++)
#pragma unroll
      for (int low = 0; low < PART_W; low += PACKED) {
        if (!there(high, low)) continue;
        index(z, (int64_t)strip * PART_H + high, (int64_t)across * PART_W + low);
        ws::Pack<float, PACKED> some;
#pragma unroll
        for (int i = 0; i < PACKED; i++) some.at[i] = pooled[q][high][low + i];
        epilogue<PACKED>(o, some, at);
      }
  }
