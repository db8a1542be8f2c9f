//! Direct convolution on CUDA cores, register-tiled: a thread makes CHANNELS x rows x columns of outputs and reads each
//! input row once for all of them; weights staged in shared memory or from the cache; fp32 FMA; no zero of a transposed
//! one is multiplied. Wants `weight`, `bias` and `prologue0`.
typedef float Part[CHANNELS][ROWS][COLS];
struct Slice {  // which weights
  const float* staged;
  int group, made, channel, kz;
};
__device__ __forceinline__ ws::Pack<float, CHANNELS> taps_at(const Operands& o, const Slice& slice, int ky, int kx) {
  ws::Pack<float, CHANNELS> taps;
  if constexpr (STAGED) {
    taps = ws::load_pack<CHANNELS>(slice.staged + (ky * KW + kx) * CHANNELS);
  } else {
#pragma unroll
    for (int q = 0; q < CHANNELS; q++) {
      const bool there = ALL_THERE || slice.made + q < MADE;
      taps.at[q] = there ? weight(o, slice.group, slice.made + q, slice.channel, slice.kz, ky, kx) : 0.0f;
    }
  }
  return taps;
}
// Elements P and up of a row of the input, counted from x on; zeros beyond its ends.
template <int P>
__device__ __forceinline__ void load_row(const Operands& o, int64_t (&at)[RANK], bool there, int x, float (&row)[WIDE]) {
  if constexpr (P <= RIGHT) {
    constexpr int N = load_width(P);
    constexpr bool ALWAYS = P >= 0 && (ACROSS - 1) * STEP + P + N <= IW;
    ws::Pack<float, N> part = {};
    if (there && (ALWAYS || (unsigned)(x + P) < (unsigned)IW)) {
      at[RANK - 1] = (int64_t)x + P;
      part = prologue0<N>(o, at);
    }
#pragma unroll
    for (int i = 0; i < N; i++) row[P - LEFT + i] = part.at[i];
    load_row<P + N>(o, at, there, x, row);
  }
}
// Row ky of the kernel times a row of the input, for row s of the outputs.
__device__ __forceinline__ void add_row(
    const Operands& o, const Slice& slice, int ky, const float (&row)[WIDE], int s, Part& acc) {
#pragma unroll
  for (int kx = 0; kx < KW; kx++) {
    const ws::Pack<float, CHANNELS> taps = taps_at(o, slice, ky, kx);
#pragma unroll
    for (int c = 0; c < COLS; c++) {
      const int from = reach(true, c, kx, SW, PW, LW);
      if (from == MISS) continue;
#pragma unroll
      for (int q = 0; q < CHANNELS; q++) acc[q][s][c] += taps.at[q] * row[from - LEFT];
    }
  }
}
__host__ __device__ constexpr bool wanted(int r) {
  for (int k = 0; k < KH; k++) {
    const int s = reach(false, r, k, SH, PH, LH);
    if (s >= 0 && s < ROWS) return true;
  }
  return false;
}
// Rows R and up of the input, counted from y on, each read once for all of the part's rows.
template <int R>
__device__ __forceinline__ void add_rows(
    const Operands& o, int64_t (&at)[RANK], const Slice& slice, int y, int x, Part& acc) {
  if constexpr (R <= BOTTOM) {
    if constexpr (wanted(R)) {
      constexpr bool ALWAYS = R >= 0 && (STRIPS - 1) * DOWN + R < IH;
      if constexpr (SPACE > 1) at[RANK - 2] = (int64_t)y + R;
      float row[WIDE];
      load_row<LEFT>(o, at, ALWAYS || (unsigned)(y + R) < (unsigned)IH, x, row);
#pragma unroll
      for (int ky = 0; ky < KH; ky++) {
        const int s = reach(false, R, ky, SH, PH, LH);
        if (s >= 0 && s < ROWS) add_row(o, slice, ky, row, s, acc);
      }
    }
    add_rows<R + 1>(o, at, slice, y, x, acc);
  }
}
// As above for large kernels: row by row of the kernel, so that few weights are held.
__device__ __forceinline__ void add_taps(
    const Operands& o, int64_t (&at)[RANK], const Slice& slice, int y, int x, Part& acc) {
#pragma unroll 1
  for (int ky = 0; ky < KH; ky++) {
#pragma unroll
    for (int s = 0; s < ROWS; s++) {
      const int r = reach(true, s, ky, SH, PH, LH);
      if (TRANSPOSED && r == MISS) continue;
      if constexpr (SPACE > 1) at[RANK - 2] = (int64_t)y + r;
      float row[WIDE];
      load_row<LEFT>(o, at, (unsigned)(y + r) < (unsigned)IH, x, row);
      add_row(o, slice, ky, row, s, acc);
    }
  }
}
// Weights of `count` input channels as the block takes them: the part's output channels side by side.
__device__ __forceinline__ void stage(const Operands& o, float* to, int group, int made, int first, int count) {
  __syncthreads();
  for (int i = threadIdx.x; i < count * (int)TAPS * CHANNELS; i += BLOCK) {
    const int tap = i % (int)TAPS, q = i / (int)TAPS % CHANNELS, c = i / ((int)TAPS * CHANNELS);
    const bool there = ALL_THERE || made + q < MADE;
    const int kz = tap / (KH * KW), ky = tap / KW % KH, kx = tap % KW;
    to[(c * (int)TAPS + tap) * CHANNELS + q] = there ? weight(o, group, made + q, first + c, kz, ky, kx) : 0.0f;
  }
  __syncthreads();
}
// One plane of a thread's part, with bias. `fresh`: no weights are staged yet.
__device__ __forceinline__ void make_part(
    const Operands& o, float* staged, int64_t (&at)[RANK], int group, int made, int z, int y, int x, bool fresh, Part& acc) {
#pragma unroll
  for (int q = 0; q < CHANNELS; q++) {
    const float start = ALL_THERE || made + q < MADE ? bias(o, (int64_t)group * MADE + made + q) : 0.0f;
#pragma unroll
    for (int s = 0; s < ROWS; s++)
#pragma unroll
      for (int c = 0; c < COLS; c++) acc[q][s][c] = start;
  }
#pragma unroll 1
  for (int first = 0; first < DEEP; first += CHUNK) {
    const int count = DEEP - first < CHUNK ? (int)DEEP - first : CHUNK;
    if (STAGED && (fresh || CHUNK < DEEP))
      for (int m = 0; m < TOGETHER; m++)
        stage(o, staged + m * MAP_SIZE, group, TOGETHER > 1 ? m * CHANNELS : made, first, count);
    const float* const own = staged + (TOGETHER > 1 ? made / CHANNELS * MAP_SIZE : 0);
#pragma unroll 1
    for (int c = 0; c < count; c++) {
      at[1] = (int64_t)group * DEEP + first + c;
#pragma unroll 1
      for (int kz = 0; kz < KD; kz++) {
        const int deep = TRANSPOSED ? z + PD - kz * LD : z * SD - PD + kz * LD;
        if (deep < 0 || (TRANSPOSED && deep % SD != 0)) continue;
        const int iz = TRANSPOSED ? deep / SD : deep;
        if (iz >= ID) continue;
        if constexpr (SPACE > 2) at[RANK - 3] = iz;
        const Slice slice = {own + (c * KD + kz) * KH * KW * CHANNELS, group, made, first + c, kz};
        if constexpr (UNROLLED) add_rows<TOP>(o, at, slice, y, x, acc);
        else add_taps(o, at, slice, y, x, acc);
      }
    }
  }
}
