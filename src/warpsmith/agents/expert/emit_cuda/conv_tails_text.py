"""CUDA C++ of `conv_tails`: what a block does with its tile of results, which lie in shared memory, and the kernel that
adds up what blocks leave. Seen from here: what `implicit_store` tells."""

CONSTANTS = """\
// What follows the convolution takes a tile apart into places: windows of a pooling, or single results.
constexpr int WINDOW_D = @WINDOW_D, WINDOW_H = @WINDOW_H, WINDOW_W = @WINDOW_W;
constexpr int SIDE_W = TILE_W * INNER / WINDOW_W, SIDE_H = TILE_H / WINDOW_H, SIDE_D = TILE_D / WINDOW_D;
constexpr int PLACES = SIDE_W * SIDE_H * SIDE_D;
static_assert(
    TILE_W * INNER % WINDOW_W == 0 && TILE_H % WINDOW_H == 0 && TILE_D % WINDOW_D == 0,
    "requires: tiles of whole windows");
static_assert(
    (WINDOW_W == 1 || PHASES_W == INNER) && (WINDOW_H == 1 || PHASES_H == 1) && (WINDOW_D == 1 || PHASES_D == 1),
    "requires: windows within a block");
constexpr int64_t ENDS_D = OD / WINDOW_D, ENDS_H = OH / WINDOW_H, ENDS_W = OW / WINDOW_W;
constexpr int NEAR = ws::widest(WINDOW_W, 4);  // results of a window that are read at once
constexpr int64_t TILES = TILES_W * TILES_H * TILES_D * OUTER, ALL = OUTS * GROUPS;
"""

# A place is `inside` where its window lies in the result as a whole; others are moved to the last one that does.
VALUE = """\
  struct Place {
    int x, y, z, at;
    bool inside;
  };
  const auto place = [&](int q) {
    const int column = q % SIDE_W * WINDOW_W, row = q / SIDE_W % SIDE_H * WINDOW_H, plane = q / (SIDE_W * SIDE_H) * WINDOW_D;
    Place found;
    found.x = ((x0 * INNER + column) * (PHASES_W / INNER) + phase_w(outer, 0)) / WINDOW_W;
    found.y = ((y0 + row) * PHASES_H + phase_h(outer)) / WINDOW_H;
    found.z = ((z0 + plane) * PHASES_D + phase_d(outer)) / WINDOW_D;
    found.at = (plane * TILE_H + row) * (TILE_W * INNER) + column;
    found.inside = found.x < ENDS_W && found.y < ENDS_H && found.z < ENDS_D;
    if (!found.inside) found.x = found.y = found.z = 0;
    return found;
  };
  // Where a place's value of channel `out` of the group lies in what follows.
  const auto index = [&](int64_t (&at)[RANK], const Place& of, int out) {
    at[0] = image;
    at[RANK - (SPACE > 2 ? 3 : 1)] = of.z;
    at[RANK - (SPACE > 1 ? 2 : 1)] = of.y;
    at[RANK - 1] = of.x;
    at[1] = group * OUTS + out;
  };
  // The value of channel c of the block at a place.
  const auto take = [&](int c, const Place& of) {
    int64_t at[RANK];
    index(at, of, block * CHANNELS + c);
    const float bias = bias_of(o, at[1]);
    float made = @START;
#pragma unroll
    for (int d = 0; d < WINDOW_D; d++)
#pragma unroll
      for (int h = 0; h < WINDOW_H; h++)
#pragma unroll
        for (int w = 0; w < WINDOW_W; w += NEAR) {
          at[RANK - (SPACE > 2 ? 3 : 1)] = of.z * WINDOW_D + d;
          at[RANK - (SPACE > 1 ? 2 : 1)] = of.y * WINDOW_H + h;
          at[RANK - 1] = of.x * WINDOW_W + w;
          ws::Pack<float, NEAR> row = ws::load_pack<NEAR>(staged + c * STAGED + of.at + (d * TILE_H + h) * (TILE_W * INNER) + w);
#pragma unroll
          for (int v = 0; v < NEAR; v++) row.at[v] += bias;
          @DRESS
#pragma unroll
          for (int v = 0; v < NEAR; v++) made = @COMBINE;
        }
    return @FINISH;
  };
"""

STORE = """\
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
"""

ADD = """\
  // A warp adds up the places of some channels at once; the kernel `finish` adds up the tiles.
  constexpr int WARP_COUNT = THREADS / 32, AT_ONCE = WINDOW_D * WINDOW_H * WINDOW_W < 8 ? 4 : 2;
  const int tile_number = ((z0 / TILE_D * (int)TILES_H + y0 / TILE_H) * (int)TILES_W + x0 / TILE_W) * OUTER + outer;
  float* const sums = (float*)spare + (image * TILES + tile_number) * ALL + group * OUTS;
#pragma unroll 1
  for (int first = threadIdx.x / 32; first < CHANNELS; first += WARP_COUNT * AT_ONCE) {
    const auto wanted = [&](int c) {
      return (CHANNELS % (WARP_COUNT * AT_ONCE) == 0 || c < CHANNELS) && (OUTS % CHANNELS == 0 || block * CHANNELS + c < OUTS);
    };
    float totals[AT_ONCE] = {};
#pragma unroll 1
    for (int q = threadIdx.x % 32; q < PLACES; q += 32) {
      const Place task = place(q);
      if (!task.inside) continue;
#pragma unroll
      for (int i = 0; i < AT_ONCE; i++) {
        const int c = first + i * WARP_COUNT;
        if (!wanted(c)) continue;
        int64_t at[RANK];
        index(at, task, block * CHANNELS + c);
        const ws::Pack<float, 1> made = {{take(c, task)}};
        totals[i] += @LATER.at[0];
      }
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      const int c = first + i * WARP_COUNT;
      const float sum = ws::warp_sum(totals[i]);
      if (threadIdx.x % 32 == 0 && wanted(c)) sums[block * CHANNELS + c] = sum;
    }
  }
"""

# What `ADD` left, in double and in a fixed order: 32 channels side by side, 8 threads above each of them.
FINISH = """\
constexpr int64_t BUNDLES = ws::ceil_div(ALL, (int64_t)32);
__global__ void __launch_bounds__(256) finish(Operands o, const float* sums) {
  __shared__ double parts[8][32];
  const int64_t image = blockIdx.x / BUNDLES, channel = blockIdx.x % BUNDLES * 32 + threadIdx.x % 32;
  const float* const from = sums + image * TILES * ALL + (channel < ALL ? channel : 0);
  double sum = 0.0;
#pragma unroll 8
  for (int64_t i = threadIdx.x / 32; i < TILES; i += 8) sum += from[i * ALL];
  parts[threadIdx.x / 32][threadIdx.x % 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32 || channel >= ALL) return;
  sum = 0.0;
  for (int i = 0; i < 8; i++) sum += parts[i][threadIdx.x];
  const int64_t at[RANK] = {image, channel};
  epilogue<1>(o, {{(float)(sum / (@COUNT))}}, at);
}
"""

# The same, with the channels' sums added up, too.
FINISH_ALL = """\
__global__ void __launch_bounds__(256) finish(Operands o, const float* sums) {
  __shared__ double parts[256];
  const int64_t image = blockIdx.x;
  const float* const from = sums + image * TILES * ALL;
  double sum = 0.0;
#pragma unroll 8
  for (int64_t i = threadIdx.x; i < TILES * ALL; i += 256) sum += from[i];
  parts[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = 0.0;
  for (int i = 0; i < 8; i++) sum += parts[threadIdx.x + 32 * i];
  sum = ws::warp_sum(sum);
  const int64_t at[RANK] = {image};
  if (threadIdx.x == 0) epilogue<1>(o, {{(float)(sum / (@COUNT))}}, at);
}
"""

COLUMNS_CONSTANTS = """\
// Each place's channels are reduced by ABOVE threads above each other.
static_assert(GROUPS == 1 && BLOCKS_OUT == 1, "requires: all channels of a place in one block");
constexpr int most_of(int n) { return n < 2 ? 1 : 2 * most_of(n / 2); }
constexpr int ABREAST = ws::widest(THREADS, most_of(PLACES)), ABOVE = THREADS / ABREAST;
constexpr int64_t REDUCE = OUTS;
"""
