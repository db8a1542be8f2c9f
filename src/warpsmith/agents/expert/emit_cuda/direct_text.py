"""The text of the kernel of direct convolutions: constants of a thread's part, the loops, and the kernel that stores parts.

`CONSTANTS` wants those of `direct.py` before it; between it and `PARTS` go `weight` and `bias`. Elements come by `prologue0`,
`epilogue` stores what was made; all is general in the shapes.
"""

CONSTANTS = """\
constexpr int BY_H = TRANSPOSED ? SH : 1, BY_W = TRANSPOSED ? SW : 1;  // phases of the output
constexpr int V = LINE && STAGED ? VEC : TRANSPOSED ? VEC : ws::widest(OW, VEC);
constexpr int64_t MOST = ws::ceil_div(OH, (int64_t)BY_H);
constexpr int HIGH = MOST < STRIP ? (int)MOST : STRIP;
constexpr int ROWS = HIGH * BY_H, COLS = V * BY_W;  // of a thread's part
constexpr int DOWN = TRANSPOSED ? HIGH : HIGH * SH, STEP = TRANSPOSED ? V : V * SW;  // of the input, to the next part
constexpr int64_t STRIPS = ws::ceil_div(OH, (int64_t)ROWS), ACROSS = ws::ceil_div(OW, (int64_t)COLS);
constexpr int64_t BLOCKS = ws::ceil_div(MADE, (int64_t)CHANNELS), MAPS = GROUPS * BLOCKS;
constexpr int64_t TASKS = IMAGES * (STAGED ? 1 : MAPS) * OD * STRIPS * ACROSS;
constexpr int64_t power_of(int64_t n) { return n < 2 ? 1 : 2 * power_of((n + 1) / 2); }  // the least that is no less
// Maps that neighbouring threads of a block make, of the same places; where that is more than one, some may be of no channel.
constexpr int TOGETHER = @TOGETHER;
constexpr bool ALL_THERE = MADE % (CHANNELS * TOGETHER) == 0;
static_assert(ID < 0x7fffffff && IH < 0x7fffffff && IW < 0x7fffffff, "requires: dimensions of less than 2^31");
static_assert(OD < 0x7fffffff && OH < 0x7fffffff && OW < 0x7fffffff, "requires: dimensions of less than 2^31");
using index_t = ws::Int<TASKS + 1024>;

constexpr int MISS = -1000000000;
// The output that tap k brings input i to, or (BACK) the input that it brings output i from; MISS where there is none.
__host__ __device__ constexpr int reach(bool back, int i, int k, int stride, int before, int dilation) {
  const int shift = k * dilation - before;
  if (back != TRANSPOSED) return i * stride + shift;
  return (i - shift) % stride == 0 ? (i - shift) / stride : MISS;
}
// The first (SIGN 1) or last (SIGN -1) input of all that `outputs` neighbours take.
__host__ __device__ constexpr int end_of(int sign, int outputs, int taps, int stride, int before, int dilation) {
  int found = -sign * MISS;
  for (int i = 0; i < outputs; i++)
    for (int k = 0; k < taps; k++) {
      const int at = reach(true, i, k, stride, before, dilation);
      if (at != MISS && sign * at < sign * found) found = at;
    }
  return found;
}
constexpr int TOP = end_of(1, ROWS, KH, SH, PH, LH), BOTTOM = end_of(-1, ROWS, KH, SH, PH, LH);
constexpr int LEFT = end_of(1, COLS, KW, SW, PW, LW), RIGHT = end_of(-1, COLS, KW, SW, PW, LW), WIDE = RIGHT - LEFT + 1;
constexpr int TAPPED = KH * KW * CHANNELS;  // weights of a plane
constexpr bool UNROLLED = (TAPPED <= 64 || TAPPED * HIGH * V <= 256) && BOTTOM - TOP < 64;
// The largest power of two up to `most` that divides both.
__host__ __device__ constexpr int common(int64_t a, int64_t b, int most) {
  while (a % most != 0 || b % most != 0) most /= 2;
  return most;
}
constexpr int LOAD = common(IW, STEP, PACK), STORE = common(OW, COLS, 16 / (int)sizeof(out0_t));
__host__ __device__ constexpr int load_width(int at) {
  int width = LOAD;
  while (at % width != 0 || at + width > RIGHT + 1) width /= 2;
  return width;
}
constexpr int64_t TAPS = KD * KH * KW;
constexpr int64_t ROOM = 4096 / (TAPS * CHANNELS) > 0 ? 4096 / (TAPS * CHANNELS) : 1;
constexpr int CHUNK = !STAGED || DEEP < ROOM ? (int)DEEP : (int)ROOM;  // input channels whose weights are staged at once
[[maybe_unused]] constexpr int MAP_SIZE = (int)(CHUNK * TAPS * CHANNELS), SHARED = STAGED ? 4 * TOGETHER * MAP_SIZE : 0;
"""

PARTS = """\
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
"""

STORED = """\
__global__ void __launch_bounds__(BLOCK) direct(Operands o) {
  float* const staged = reinterpret_cast<float*>(ws::dynamic_shared());
  // Staged weights are those of one map: a group's CHANNELS outputs. Blocks side by side read the same part of the input.
  const index_t all = (index_t)(STAGED ? blockIdx.x / (unsigned)MAPS : blockIdx.x) * BLOCK + threadIdx.x;
  const bool inside = all < TASKS;
  const index_t task = inside ? all : (index_t)(TASKS - 1);
  const int across = (int)(task % (index_t)ACROSS), strip = (int)(task / (index_t)ACROSS % (index_t)STRIPS);
  const int z = (int)(task / (index_t)(ACROSS * STRIPS) % (index_t)OD);
  const index_t lead = task / (index_t)(ACROSS * STRIPS * OD);
  const int map = STAGED ? (int)(blockIdx.x % (unsigned)MAPS) : (int)(lead % (index_t)MAPS);
  const int group = map / (int)BLOCKS, made = map % (int)BLOCKS * CHANNELS;
  const int x = across * STEP, y = strip * DOWN;
  int64_t at[RANK];
  at[0] = STAGED ? lead : lead / (index_t)MAPS;
  Part acc;
  make_part(o, staged, at, group, made, z, y, x, true, acc);
  if (!inside) return;
  if constexpr (SPACE > 2) at[RANK - 3] = z;
#pragma unroll
  for (int q = 0; q < CHANNELS; q++) {
    if (!ALL_THERE && made + q >= MADE) continue;
    at[1] = (int64_t)group * MADE + made + q;
#pragma unroll
    for (int s = 0; s < ROWS; s++) {
      if (OH % ROWS != 0 && strip * ROWS + s >= OH) continue;
      if constexpr (SPACE > 1) at[RANK - 2] = (int64_t)strip * ROWS + s;
#pragma unroll
      for (int c = 0; c < COLS; c += STORE) {
        if (OW % COLS != 0 && across * COLS + c >= OW) continue;
        at[RANK - 1] = (int64_t)across * COLS + c;
        ws::Pack<float, STORE> some;
#pragma unroll
        for (int i = 0; i < STORE; i++) some.at[i] = acc[q][s][c + i];
        epilogue<STORE>(o, some, at);
      }
    }
  }
}
"""
