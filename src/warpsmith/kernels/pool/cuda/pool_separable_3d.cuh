//! Separable 3D pooling: a block walks the planes of a volume and reads each once; height and depth are combined in
//! registers (a rolling window of planes), width through shared memory; next planes prefetched. Limit: windows that
//! overlap along the depth.
constexpr int V = ws::widest(IW, VEC);
static_assert(ID * SD < 0x7fffffff && IH * SH < 0x7fffffff && IW * SW < 0x7fffffff, "requires: an image of less than 2^31 across");
__host__ __device__ constexpr int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
// Packs of columns in a block: a whole row of the image, or as much of it as leaves the block several rows.
constexpr bool WHOLE = IW / V <= BLOCK / 8;
constexpr int COLS = WHOLE ? IW / V : BLOCK / 8, SPREAD = (KW - 1) * LW + 1;
constexpr int ACROSS = WHOLE ? OW : (COLS * V - V + 1 - SPREAD) / SW + 1;  // outputs
static_assert(ACROSS > 0, "requires: windows of fewer columns");
// A row in shared memory: padding, columns, padding.
constexpr int LEFT = ws::ceil_div(PW, V) * V, PAD = WHOLE ? LEFT : 0, BEYOND = (OW - 1) * SW - PW + SPREAD - IW;
constexpr int LINE = PAD + COLS * V + (WHOLE && BEYOND > 0 ? ws::ceil_div(BEYOND, V) * V : 0);
constexpr int MOST = least(BLOCK / COLS, LINE < 6144 ? 6144 / LINE : 1);  // rows of a block
constexpr int64_t HEIGHTS = ws::ceil_div(OH, (int64_t)MOST), LAYERS = ws::ceil_div(OD, (int64_t)PLANES_PER_BLOCK);
constexpr int ROWS = ws::ceil_div(OH, HEIGHTS), DEPTH = ws::ceil_div(OD, LAYERS);
constexpr int THREADS = ws::ceil_div(ROWS * COLS, 32) * 32, TURNS = ws::ceil_div(ACROSS, COLS);
constexpr int64_t TILES = ws::ceil_div(OW, (int64_t)ACROSS), BLOCKS = LEAD * LAYERS * HEIGHTS * TILES;
// Planes of a window and between, and those of them that the next window has, too.
constexpr int THICK = (KD - 1) * LD + 1, KEPT = THICK - SD;
static_assert(KEPT >= 0, "requires: windows that share planes");
using Values = ws::Pack<float, V>;
// Loads are unconditional, of something that is there, so that none waits for a branch.
__device__ __forceinline__ void load(const Operands& o, int64_t (&at)[RANK], const int (&rows)[KH], int iz, Values (&taps)[KH]) {
  at[RANK - 3] = clamped(iz, 0, (int)ID - 1);
#pragma unroll
  for (int k = 0; k < KH; k++) {
    at[RANK - 2] = rows[k];
    taps[k] = prologue0<V>(o, at);
  }
}
// The rows of the windows, of one plane; what is not of the image counts as nothing.
__device__ __forceinline__ Values combine_rows(const Values (&taps)[KH], const bool (&there)[KH], int iz) {
  const bool plane = iz >= 0 && iz < ID;
  Values made;
#pragma unroll
  for (int k = 0; k < KH; k++)
#pragma unroll
    for (int v = 0; v < V; v++) {
      const float x = plane && there[k] ? taps[k].at[v] : START;
      made.at[v] = k == 0 ? x : combine(made.at[v], x);
    }
  return made;
}
// Threads of a row wait for each other.
__device__ __forceinline__ void meet() {
  if constexpr (32 % COLS == 0) __syncwarp();
  else __syncthreads();
}

__global__ void __launch_bounds__(THREADS) pool(Operands o) {
  __shared__ __align__(32) float lines[2][ROWS][LINE];
  const int row = threadIdx.x / COLS, column = threadIdx.x % COLS;
  int64_t at[RANK], to[RANK];  // of the image, of the result
  leading(blockIdx.x / (unsigned)(TILES * HEIGHTS * LAYERS), at);
  leading(blockIdx.x / (unsigned)(TILES * HEIGHTS * LAYERS), to);
  const int x = blockIdx.x % (unsigned)TILES * ACROSS, y = blockIdx.x / (unsigned)TILES % (unsigned)HEIGHTS * ROWS + row;
  const int z = blockIdx.x / (unsigned)(TILES * HEIGHTS) % (unsigned)LAYERS * DEPTH, end = least(z + DEPTH, OD);
  // The first column of the block, and of this thread.
  const int base = WHOLE ? 0 : (x * SW - PW + LEFT) / V * V - LEFT, ix = base + column * V;
  at[RANK - 1] = clamped(ix, 0, (int)IW - V);
  to[RANK - 2] = y;
  const bool mine = row < ROWS && y < OH;
  int rows[KH];
  bool there[KH];
#pragma unroll
  for (int k = 0; k < KH; k++) {
    const int iy = y * SH - PH + k * LH;
    rows[k] = clamped(iy, 0, (int)IH - 1);
    there[k] = iy >= 0 && iy < IH && ix >= 0 && ix < IW;
  }
  if (PAD > 0 || LINE > COLS * V) {
    for (int i = threadIdx.x; i < 2 * ROWS * LINE; i += THREADS) lines[i / LINE % 2][i / LINE / 2][i % LINE] = START;
    __syncthreads();
  }
  int front = z * SD - PD;  // the first plane of the window
  Values planes[THICK], taps[SD][KH];
#pragma unroll
  for (int d = 0; d < KEPT; d++) {
    load(o, at, rows, front + d, taps[0]);
    planes[d] = combine_rows(taps[0], there, front + d);
  }
#pragma unroll
  for (int d = 0; d < SD; d++) load(o, at, rows, front + KEPT + d, taps[d]);
#pragma unroll 1
  for (int oz = z; oz < end; oz++) {
#pragma unroll
    for (int d = 0; d < SD; d++) planes[KEPT + d] = combine_rows(taps[d], there, front + KEPT + d);
    front += SD;
    if (oz + 1 < end)
#pragma unroll
      for (int d = 0; d < SD; d++) load(o, at, rows, front + KEPT + d, taps[d]);
    Values acc = planes[0];
#pragma unroll
    for (int d = 1; d < KD; d++)
#pragma unroll
      for (int v = 0; v < V; v++) acc.at[v] = combine(acc.at[v], planes[d * LD].at[v]);
#pragma unroll
    for (int d = 0; d < KEPT; d++) planes[d] = planes[d + SD];
    // Two lines a row, by turns: who writes one has met all who read it. Idle threads read along with the last row.
    float* const line = lines[oz % 2][row < ROWS ? row : ROWS - 1];
    if (row < ROWS) *(Values*)(line + PAD + column * V) = acc;
    meet();
    float made[TURNS];
#pragma unroll
    for (int i = 0; i < TURNS; i++) {  // unconditional, too
      const int slot = i * COLS + column < ACROSS ? i * COLS + column : ACROSS - 1;
      const float* const first = line + PAD + (x + slot) * SW - PW - base;
      made[i] = first[0];
#pragma unroll
      for (int w = 1; w < KW; w++) made[i] = combine(made[i], first[w * LW]);
    }
    to[RANK - 3] = oz;
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
      const int slot = i * COLS + column, ox = x + slot;
      if (!mine || slot >= ACROSS || ox >= OW) continue;
      if (!MAXIMUM)
        made[i] /= COUNT != 0.0f ? COUNT : counted(oz, ID, KD, SD, PD) * counted(y, IH, KH, SH, PH) * counted(ox, IW, KW, SW, PW);
      to[RANK - 1] = ox;
      epilogue<1>(o, {{made[i]}}, to);
    }
  }
}
