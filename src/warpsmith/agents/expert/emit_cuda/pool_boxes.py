"""Pooling windows of a fixed size on a GPU: a thread takes a small box of outputs, DEEP by STRIP by ACROSS of them, so that
what neighbouring windows share is read once: each row of the image is combined across the windows' width, then goes to
every output of the box whose window has it.

In: the windows of up to three dimensions. Out: one kernel, general in all shapes. `prologue0` brings a pack of the image,
`epilogue` stores one of the result. ACROSS outputs advance by as many elements as SPAN packs have, so that neighbouring threads
read neighbouring packs; what their windows reach beyond comes from the cache. Rows of the result that are no whole number
of such packs go through shared memory, so that neighbouring threads store neighbouring elements all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..emit.text import Writer
from ..families.pool_windows import Pool, Window
from .source import Launch

NO_WINDOW = Window(1, 1, 0, 1)

_KERNEL = """\
// The first output of a box; false: there is no such box.
__device__ __forceinline__ bool place(index_t task, int64_t (&at)[RANK], int& z, int& y, int& x) {
  const bool there = task < TASKS;
  if (!there) task = TASKS - 1;
  x = task % (index_t)GROUPS * ACROSS;
  y = task / (index_t)GROUPS % (index_t)STRIPS * STRIP;
  z = task / (index_t)(GROUPS * STRIPS) % (index_t)LAYERS * DEEP;
  leading(task / (index_t)(GROUPS * STRIPS * LAYERS), at);
  return there;
}

// INSIDE: the rows and columns of all windows of the box are of the image, as most are: nothing has to be tested.
template <bool INSIDE>
__device__ __forceinline__ void combine_box(const Operands& o, int64_t (&at)[RANK], int left, int top, int front,
                                            float (&acc)[DEEP][STRIP][ACROSS]) {
#pragma unroll 1
  for (int d = 0; d < THICK; d++) {
    const int iz = front + d;
    if (iz < 0 || iz >= ID || (DEEP == 1 && d % LD != 0)) continue;
    if (SPACE > 2) at[RANK - (SPACE > 2 ? 3 : 1)] = iz;
    float plane[STRIP][ACROSS];
#pragma unroll
    for (int i = 0; i < STRIP * ACROSS; i++) plane[i / ACROSS][i % ACROSS] = START;
#pragma unroll
    for (int r = 0; r < TALL; r++) {
      bool wanted = false;
#pragma unroll
      for (int s = 0; s < STRIP; s++) wanted |= has(r - s * SH, KH, LH);
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
        for (int s = 0; s < STRIP; s++)
          if (has(r - s * SH, KH, LH)) plane[s][a] = combine(plane[s][a], line);
      }
    }
#pragma unroll
    for (int e = 0; e < DEEP; e++)
      if (DEEP == 1 || has(d - e * SD, KD, LD))
#pragma unroll
        for (int i = 0; i < STRIP * ACROSS; i++)
          acc[e][i / ACROSS][i % ACROSS] = combine(acc[e][i / ACROSS][i % ACROSS], plane[i / ACROSS][i % ACROSS]);
  }
}

__global__ void __launch_bounds__(BLOCK) pool(Operands o) {
  const index_t task = (index_t)blockIdx.x * BLOCK + threadIdx.x;
  int64_t at[RANK];
  int z, y, x;
  const bool mine = place(task, at, z, y, x);
  const int left = x * SW - LEFT, top = y * SH - PH, front = z * SD - PD;
  float acc[DEEP][STRIP][ACROSS];
#pragma unroll
  for (int i = 0; i < DEEP * STRIP * ACROSS; i++) acc[i / (STRIP * ACROSS)][i / ACROSS % STRIP][i % ACROSS] = START;
  const bool inside = left >= 0 && left + PACKS * V <= IW && top >= 0 && top + TALL <= IH;
  if (OFTEN && __all_sync(ws::FULL, inside)) combine_box<true>(o, at, left, top, front, acc);
  else combine_box<false>(o, at, left, top, front, acc);
  // Do the boxes of this warp lie beside each other?
  const int lane = threadIdx.x % 32, before = x / ACROSS - lane;
  [[maybe_unused]] const bool beside = mine && before >= 0 && before + 31 < GROUPS;
#pragma unroll
  for (int e = 0; e < DEEP; e++) {
#pragma unroll
    for (int s = 0; s < STRIP; s++) {
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
"""

_CONSTANTS = """\
constexpr float START = MAXIMUM ? -ws::infinity : 0.0f;
__device__ __forceinline__ float combine(float a, float b) { return MAXIMUM ? ws::max_nan(b, a) : a + b; }
// Is the element at this distance from a window's first one of the window?
__host__ __device__ constexpr bool has(int distance, int kernel, int dilation) {
  return distance >= 0 && distance <= (kernel - 1) * dilation && distance % dilation == 0;
}
__device__ __forceinline__ int clamped(int i, int least, int most) { return i < least ? least : i > most ? most : i; }
// Elements of a window that an average counts along one dimension.
__device__ __forceinline__ float counted(int64_t o, int64_t size, int kernel, int stride, int padding) {
  const int64_t first = o * stride - padding, end = first + kernel;
  const int64_t least = PADDED ? first : first > 0 ? first : 0, most = PADDED ? size + padding : size;
  return (float)((end < most ? end : most) - least);
}
constexpr bool within(int64_t made, int64_t size, int kernel, int stride, int padding) {
  return (made - 1) * stride - padding + kernel <= size + padding;
}
// Do all windows count the same?
constexpr bool ALIKE = PADDED && within(OD, ID, KD, SD, PD) && within(OH, IH, KH, SH, PH) && within(OW, IW, KW, SW, PW);
constexpr float COUNT = DIVISOR != 0 ? (float)DIVISOR : ALIKE ? (float)KD * KH * KW : 0.0f;  // 0: each its own
"""

_BOXES = """\
// Packs start at multiples of V wherever windows do: a power of two that divides the stride, or is divided by it.
constexpr int fitting(int most) {
  while (most % SW != 0 && SW % most != 0) most /= 2;
  return most;
}
constexpr int V = fitting(ws::widest(IW, VEC)), ACROSS = V % SW == 0 ? SPAN * V / SW : 1;
static_assert(ID * SD < 0x7fffffff && IH * SH < 0x7fffffff && IW * SW < 0x7fffffff, "requires: an image of less than 2^31 across");
constexpr int LEFT = ws::ceil_div(PW, V) * V, SHIFT = LEFT - PW;  // of a thread's first pack before its first window
constexpr int PACKS = ws::ceil_div(SHIFT + (ACROSS - 1) * SW + (KW - 1) * LW + 1, V);
constexpr int TALL = (STRIP - 1) * SH + (KH - 1) * LH + 1, THICK = (DEEP - 1) * SD + (KD - 1) * LD + 1;
// Are there warps inside, and does each of their loads serve several windows?
constexpr bool OFTEN = SPACE < 3 && SW < KW;
constexpr int64_t GROUPS = ws::ceil_div(OW, (int64_t)ACROSS), STRIPS = ws::ceil_div(OH, (int64_t)STRIP);
constexpr int64_t LAYERS = ws::ceil_div(OD, (int64_t)DEEP), TASKS = LEAD * LAYERS * STRIPS * GROUPS;
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
"""


def box_kernels(top: Writer, pool: Pool, rank: int, sizes: Sequence[str]) -> tuple[list[Launch], str, str]:
    """`sizes`: of the dimensions of what is pooled, as C++. Writes the constants to `top`; see `CudaAnchored.kernels`."""
    write_windows(top, pool, rank, sizes)
    launch = Launch("pool", "ws::ceil_div(TASKS, (int64_t)BLOCK)", "BLOCK", struct=True)
    return [launch], _BOXES + _KERNEL, ""


def write_windows(top: Writer, pool: Pool, rank: int, sizes: Sequence[str]) -> None:
    """What windows, image and result are along D, H and W, as constants, and how elements are combined."""
    space = len(pool.windows)
    padded = [NO_WINDOW] * (3 - space) + list(pool.windows)
    inner = ["1"] * (3 - space) + list(sizes[-space:])
    outer = ["1"] * (3 - space) + [f"out0_shape[{d}]" for d in range(rank - space, rank)]
    top.line(f"constexpr int RANK = {rank}, SPACE = {space};")
    for letter, window, size, count in zip("DHW", padded, inner, outer, strict=True):
        top.line(
            f"constexpr int K{letter} = {window.kernel}, S{letter} = {window.stride}, P{letter} = {window.padding}, "
            f"L{letter} = {window.dilation};  // kernel, stride, padding, dilation"
        )
        top.line(f"constexpr bool FREE_{letter} = {str(window.adaptive).lower()};  // adaptive")
        top.line(f"constexpr int64_t I{letter} = {size}, O{letter} = {count};")
    top.line(f"constexpr bool MAXIMUM = {str(pool.maximum).lower()}, PADDED = {str(pool.padded).lower()};")
    top.line(f"constexpr int64_t DIVISOR = {pool.divisor or 0};")
    lead = " * ".join(f"out0_shape[{d}]" for d in range(rank - space)) or "1"
    top.line(f"constexpr int64_t LEAD = {lead};")
    for line in _CONSTANTS.splitlines():
        top.line(line)
    top.line("template <class T>")  # 32 bits where they do
    with top.block("__device__ __forceinline__ void leading(T number, int64_t (&at)[RANK])"):
        for d in range(rank - space - 1, -1, -1):
            top.line(f"at[{d}] = number % (T)out0_shape[{d}];")
            top.line(f"number /= (T)out0_shape[{d}];")
