"""CUDA C++ of `direct_tails`: constants, and a kernel whose threads finish their parts in registers. Seen from here: what
`direct_text` has."""

CONSTANTS = """\
// What follows takes a thread's part apart into windows of a pooling, or single results.
constexpr int WINDOW_D = @WINDOW_D, WINDOW_H = @WINDOW_H, WINDOW_W = @WINDOW_W;
static_assert(ROWS % WINDOW_H == 0 && COLS % WINDOW_W == 0, "requires: parts of whole windows");
constexpr int PART_H = ROWS / WINDOW_H, PART_W = COLS / WINDOW_W;
constexpr int64_t ENDS_D = OD / WINDOW_D, ENDS_H = OH / WINDOW_H, ENDS_W = OW / WINDOW_W;
constexpr int PLACED = BLOCK / TOGETHER;  // parts of a block that lie at different places
constexpr int64_t EACH = ENDS_D * STRIPS * ACROSS, TILES = ws::ceil_div(EACH, (int64_t)PLACED);  // parts and blocks of an image
constexpr int64_t ALL = GROUPS * MADE;
static_assert(EACH < 0x7ffffff0, "requires: images of less than 2^31 parts");
"""

WHOLE = """\
static_assert(GROUPS == 1 && TOGETHER <= 32 && PLACED * TOGETHER == BLOCK, "requires: all channels of a place in one warp");
constexpr int64_t REDUCE = MADE;
"""

# A window that does not lie in the result as a whole yields nothing.
KERNEL = """\
__global__ void __launch_bounds__(BLOCK) direct(Operands o, [[maybe_unused]] float* sums) {
  float* const staged = reinterpret_cast<float*>(ws::dynamic_shared());
  const int map = @MAP, group = TOGETHER > 1 ? 0 : map / (int)BLOCKS, from = (map - group * (int)BLOCKS) * CHANNELS;
  const int64_t tile = @TILE;
  const int own = (int)(tile % TILES) * PLACED + (int)threadIdx.x / TOGETHER, task = own < EACH ? own : (int)EACH - 1;
  const int across = task % (int)ACROSS, strip = task / (int)ACROSS % (int)STRIPS, z = task / (int)(ACROSS * STRIPS);
  int64_t at[RANK];
  at[0] = tile / TILES;
  const auto there = [&](int high, int low) {
    return own < EACH && strip * PART_H + high < ENDS_H && across * PART_W + low < ENDS_W;
  };
  const auto index = [&](int64_t deep, int64_t high, int64_t low) {
    if constexpr (SPACE > 2) at[RANK - 3] = deep;
    if constexpr (SPACE > 1) at[RANK - 2] = high;
    at[RANK - 1] = low;
  };
  float pooled[CHANNELS][PART_H][PART_W];
#pragma unroll
  for (int q = 0; q < CHANNELS; q++)
#pragma unroll
    for (int high = 0; high < PART_H; high++)
#pragma unroll
      for (int low = 0; low < PART_W; low++) pooled[q][high][low] = @START;
#pragma unroll 1
  for (int d = 0; d < WINDOW_D; d++) {
    const int plane = z * WINDOW_D + d;
    Part acc;
    make_part(o, staged, at, group, from, plane, strip * DOWN, across * STEP, d == 0, acc);
#pragma unroll
    for (int q = 0; q < CHANNELS; q++) {
      if (!ALL_THERE && from + q >= MADE) continue;
      at[1] = (int64_t)group * MADE + from + q;
#pragma unroll
      for (int s = 0; s < ROWS; s++)
#pragma unroll
        for (int c = 0; c < COLS; c++) {
          if (!there(s / WINDOW_H, c / WINDOW_W)) continue;
          constexpr int v = 0;
          index(plane, (int64_t)strip * ROWS + s, (int64_t)across * COLS + c);
          float& made = pooled[q][s / WINDOW_H][c / WINDOW_W];
          ws::Pack<float, 1> row = {{acc[q][s][c]}};
          @DRESS
          made = @COMBINE;
        }
    }
  }
#pragma unroll
  for (int q = 0; q < CHANNELS; q++)
#pragma unroll
    for (int high = 0; high < PART_H; high++)
#pragma unroll
      for (int low = 0; low < PART_W; low++) {
        const float made = pooled[q][high][low];
        pooled[q][high][low] = @FINISH;
      }
@END
}
"""

# Neighbouring windows of a thread go to memory as a pack.
STORE = """\
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
"""

ADD = """\
  __shared__ float parts[BLOCK / 32][CHANNELS];
#pragma unroll
  for (int q = 0; q < CHANNELS; q++) {
    at[1] = (int64_t)group * MADE + from + q;
    float sum = 0.0f;
#pragma unroll
    for (int high = 0; high < PART_H; high++)
#pragma unroll
      for (int low = 0; low < PART_W; low++) {
        if (!there(high, low) || (!ALL_THERE && from + q >= MADE)) continue;
        index(z, (int64_t)strip * PART_H + high, (int64_t)across * PART_W + low);
        const ws::Pack<float, 1> made = {{pooled[q][high][low]}};
        sum += @LATER.at[0];
      }
    sum = ws::warp_sum(sum);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32][q] = sum;
  }
  __syncthreads();
  if (threadIdx.x < CHANNELS && from + (int)threadIdx.x < MADE) {
    float sum = 0.0f;
    for (int i = 0; i < BLOCK / 32; i++) sum += parts[i][threadIdx.x];
    sums[tile * ALL + (int64_t)group * MADE + from + threadIdx.x] = sum;
  }
"""
