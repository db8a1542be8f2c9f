//! Tiling of the direct convolution: outputs of a thread, input rows and columns that they read, load and store widths,
//! chunks of weights in shared memory, evaluated by the compiler. $maps_per_block: blocks of output channels that a
//! thread block makes.
constexpr int BY_H = TRANSPOSED ? SH : 1, BY_W = TRANSPOSED ? SW : 1;  // phases of the output
constexpr int V = LINE && STAGED ? VEC : TRANSPOSED ? VEC : ws::widest(OW, VEC);
constexpr int64_t MOST = ws::ceil_div(OH, (int64_t)BY_H);
constexpr int HIGH = MOST < ROWS_PER_THREAD ? (int)MOST : ROWS_PER_THREAD;
constexpr int ROWS = HIGH * BY_H, COLS = V * BY_W;  // of a thread's part
constexpr int DOWN = TRANSPOSED ? HIGH : HIGH * SH, STEP = TRANSPOSED ? V : V * SW;  // of the input, to the next part
constexpr int64_t STRIPS = ws::ceil_div(OH, (int64_t)ROWS), ACROSS = ws::ceil_div(OW, (int64_t)COLS);
constexpr int64_t BLOCKS = ws::ceil_div(MADE, (int64_t)CHANNELS), MAPS = GROUPS * BLOCKS;
constexpr int64_t TASKS = IMAGES * (STAGED ? 1 : MAPS) * OD * STRIPS * ACROSS;
constexpr int64_t power_of(int64_t n) { return n < 2 ? 1 : 2 * power_of((n + 1) / 2); }  // the least that is no less
// Maps that neighbouring threads of a block make, of the same places; where that is more than one, some may be of no channel.
constexpr int TOGETHER = $maps_per_block;
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
