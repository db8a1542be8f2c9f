//! Fused epilogue of an implicit GEMM: stores pooled values, neighbouring threads neighbouring places.
  // Neighbouring threads store neighbouring places.
  constexpr int ABREAST = PLACES < THREADS ? PLACES : THREADS, HIGH = THREADS / ABREAST;
  for (int q = threadIdx.x % ABREAST; q < PLACES && threadIdx.x < ABREAST * HIGH; q += ABREAST) {
    const Place task = place(q);
    if (!task.inside) continue;
#pragma unroll 4
    for (int c = threadIdx.x / ABREAST; c < CHANNELS; c += HIGH) {
      if (block * CHANNELS + c >= OUTS) break;
      int64_t at[RANK];
      index(at, task, block * CHANNELS + c);
      epilogue<1>(o, {{take(c, task)}}, at);
    }
  }
