//! Register-tiled pooling: a thread makes PLANES_PER_THREAD x ROWS_PER_THREAD x ACROSS outputs from 16-byte loads, combines each row across
//! the width once, then down and deep; loads unconditional, border tests skipped inside; ragged rows stored through
//! shared memory; fixed windows, 1 to 3 D.
// Packs start at multiples of V wherever windows do: a power of two that divides the stride, or is divided by it.
constexpr int fitting(int most) {
  while (most % SW != 0 && SW % most != 0) most /= 2;
  return most;
}
constexpr int V = fitting(ws::widest(IW, VEC)), ACROSS = V % SW == 0 ? PACKS_PER_THREAD * V / SW : 1;
static_assert(ID * SD < 0x7fffffff && IH * SH < 0x7fffffff && IW * SW < 0x7fffffff, "requires: an image of less than 2^31 across");
constexpr int LEFT = ws::ceil_div(PW, V) * V, SHIFT = LEFT - PW;  // of a thread's first pack before its first window
constexpr int PACKS = ws::ceil_div(SHIFT + (ACROSS - 1) * SW + (KW - 1) * LW + 1, V);
constexpr int TALL = (ROWS_PER_THREAD - 1) * SH + (KH - 1) * LH + 1, THICK = (PLANES_PER_THREAD - 1) * SD + (KD - 1) * LD + 1;
// Are there warps inside, and does each of their loads serve several windows?
constexpr bool OFTEN = SPACE < 3 && SW < KW;
constexpr int64_t GROUPS = ws::ceil_div(OW, (int64_t)ACROSS), STRIPS = ws::ceil_div(OH, (int64_t)ROWS_PER_THREAD);
constexpr int64_t LAYERS = ws::ceil_div(OD, (int64_t)PLANES_PER_THREAD), TASKS = LEAD * LAYERS * STRIPS * GROUPS;
using index_t = ws::Int<TASKS + 2048>;
template <int N>
__device__ __forceinline__ void store(const Operands& o, const ws::Pack<float, N>& made, int64_t (&at)[RANK], bool mine,
                                      int z, int y, int x) {
  if (!mine || z >= OD || y >= OH || x >= OW) return;
  at[RANK - 1] = x;
  if (SPACE > 1) at[RANK - (SPACE > 1 ? 2 : 1)] = y;
  if (SPACE > 2) at[RANK - (SPACE > 2 ? 3 : 1)] = z;
  epilogue<N>(o, made, at);
}
// The first output of a box; false: there is no such box.
__device__ __forceinline__ bool place(index_t task, int64_t (&at)[RANK], int& z, int& y, int& x) {
  const bool there = task < TASKS;
  if (!there) task = TASKS - 1;
  x = task % (index_t)GROUPS * ACROSS;
  y = task / (index_t)GROUPS % (index_t)STRIPS * ROWS_PER_THREAD;
  z = task / (index_t)(GROUPS * STRIPS) % (index_t)LAYERS * PLANES_PER_THREAD;
  leading(task / (index_t)(GROUPS * STRIPS * LAYERS), at);
  return there;
}

// INSIDE: the rows and columns of all windows of the box are of the image, as most are: nothing has to be tested.
template <bool INSIDE>
__device__ __forceinline__ void combine_box(const Operands& o, int64_t (&at)[RANK], int left, int top, int front,
                                            float (&acc)[PLANES_PER_THREAD][ROWS_PER_THREAD][ACROSS]) {
#pragma unroll 1
  for (int d = 0; d < THICK; d++) {
    const int iz = front + d;
    if (iz < 0 || iz >= ID || (PLANES_PER_THREAD == 1 && d % LD != 0)) continue;
    if (SPACE > 2) at[RANK - (SPACE > 2 ? 3 : 1)] = iz;
    float plane[ROWS_PER_THREAD][ACROSS];
#pragma unroll
    for (int i = 0; i < ROWS_PER_THREAD * ACROSS; i++) plane[i / ACROSS][i % ACROSS] = START;
#pragma unroll
    for (int r = 0; r < TALL; r++) {
      bool wanted = false;
#pragma unroll
      for (int s = 0; s < ROWS_PER_THREAD; s++) wanted |= has(r - s * SH, KH, LH);
      if (!wanted) continue;
      const int iy = top + r;
      if (SPACE > 1) at[RANK - (SPACE > 1 ? 2 : 1)] = INSIDE ? iy : clamped(iy, 0, (int)IH - 1);
      float row[PACKS * V];  // all loads of a row, and of the rows of a strip, may be under way at once
#pragma unroll
      for (int p = 0; p < PACKS; p++) {
        // Loads are unconditional, of something that is there, so that none waits for a branch.
        const int ix = left + p * V;
        const bool there = INSIDE || (iy >= 0 && iy < IH && ix >= 0 && ix < IW);
        at[RANK - 1] = INSIDE ? ix : clamped(ix, 0, (int)IW - V);
        const ws::Pack<float, V> values = prologue0<V>(o, at);
#pragma unroll
        for (int v = 0; v < V; v++) row[p * V + v] = there ? values.at[v] : START;
      }
#pragma unroll
      for (int a = 0; a < ACROSS; a++) {
        float line = row[SHIFT + a * SW];
#pragma unroll
        for (int w = 1; w < KW; w++) line = combine(line, row[SHIFT + a * SW + w * LW]);
#pragma unroll
        for (int s = 0; s < ROWS_PER_THREAD; s++)
          if (has(r - s * SH, KH, LH)) plane[s][a] = combine(plane[s][a], line);
      }
    }
#pragma unroll
    for (int e = 0; e < PLANES_PER_THREAD; e++)
      if (PLANES_PER_THREAD == 1 || has(d - e * SD, KD, LD))
#pragma unroll
        for (int i = 0; i < ROWS_PER_THREAD * ACROSS; i++)
          acc[e][i / ACROSS][i % ACROSS] = combine(acc[e][i / ACROSS][i % ACROSS], plane[i / ACROSS][i % ACROSS]);
  }
}

__global__ void __launch_bounds__(BLOCK) pool(Operands o) {
  const index_t task = (index_t)blockIdx.x * BLOCK + threadIdx.x;
  int64_t at[RANK];
  int z, y, x;
  const bool mine = place(task, at, z, y, x);
  const int left = x * SW - LEFT, top = y * SH - PH, front = z * SD - PD;
  float acc[PLANES_PER_THREAD][ROWS_PER_THREAD][ACROSS];
#pragma unroll
  for (int i = 0; i < PLANES_PER_THREAD * ROWS_PER_THREAD * ACROSS; i++) acc[i / (ROWS_PER_THREAD * ACROSS)][i / ACROSS % ROWS_PER_THREAD][i % ACROSS] = START;
  const bool inside = left >= 0 && left + PACKS * V <= IW && top >= 0 && top + TALL <= IH;
  if (OFTEN && __all_sync(ws::FULL, inside)) combine_box<true>(o, at, left, top, front, acc);
  else combine_box<false>(o, at, left, top, front, acc);
  // Do the boxes of this warp lie beside each other?
  const int lane = threadIdx.x % 32, before = x / ACROSS - lane;
  [[maybe_unused]] const bool beside = mine && before >= 0 && before + 31 < GROUPS;
#pragma unroll
  for (int e = 0; e < PLANES_PER_THREAD; e++) {
#pragma unroll
    for (int s = 0; s < ROWS_PER_THREAD; s++) {
      ws::Pack<float, ACROSS> made;
#pragma unroll
      for (int a = 0; a < ACROSS; a++) {
        made.at[a] = acc[e][s][a];
        if (!MAXIMUM)
          made.at[a] /= COUNT != 0.0f ? COUNT
                                      : counted(z + e, ID, KD, SD, PD) * counted(y + s, IH, KH, SH, PH) *
                                            counted(x + a, IW, KW, SW, PW);
      }
      if constexpr (OW % ACROSS == 0) {
        store<ACROSS>(o, made, at, mine, z + e, y + s, x);
      } else {
        __shared__ __align__(32) float rows[BLOCK / 32][32 * ACROSS];
        float* const shared = rows[threadIdx.x / 32];
        *(ws::Pack<float, ACROSS>*)(shared + lane * ACROSS) = made;
        __syncwarp();
#pragma unroll
        for (int a = 0; a < ACROSS; a++) {
          const int slot = a * 32 + lane;
          if (beside) {
            store<1>(o, {{shared[slot]}}, at, true, z + e, y + s, before * ACROSS + slot);
            continue;
          }
          int64_t there[RANK];
          int oz, oy, ox;
          const bool some = place(task - lane + slot / ACROSS, there, oz, oy, ox);
          store<1>(o, {{shared[slot]}}, there, some, oz + e, oy + s, ox + slot % ACROSS);
        }
        __syncwarp();
      }
    }
  }
}
