"""Scans on a GPU: along the last dimension a block takes a row (or a part of it) tile by tile, along another one a thread
takes neighbouring columns.

In: what is scanned and in which form. Out: kernels, general in all shapes. `prologue0` brings packs of the source,
`epilogue` stores packs of the result. Within a tile: each thread's own pack, then shuffles in warps, then the warps'
totals (Hillis and Steele 1986); what is carried from tile to tile is double. Two tiles are under way while one is
scanned. Rows that are no whole number of packs are stored through shared memory, so that neighbouring threads store
neighbouring elements. A split row is read twice: for what its parts add up to, and for the scan.
"""

from __future__ import annotations

from ..emit.scan import COMBINE
from ..emit.text import Writer
from .source import Launch

_CONSTANTS = """\
constexpr int RANK = {rank}, AXIS = {axis}, LAST = RANK - 1;
constexpr bool REVERSE = {reverse}, EXCLUSIVE = {exclusive};
constexpr int64_t N = out0_shape[AXIS], WIDTH = out0_shape[LAST];
constexpr int64_t COUNT = EXCLUSIVE ? N - 1 : N;  // elements that are read
constexpr float IDENTITY = {identity};
// The first element of an independent scan; over columns `number` counts bundles of WIDTH of them.
__device__ __forceinline__ void place(int64_t number, int64_t (&at)[RANK], bool columns) {{
#pragma unroll
  for (int d = LAST; d >= 0; d--) {{
    at[d] = 0;
    if (d == AXIS || (columns && d == LAST)) continue;
    at[d] = number % out0_shape[d];
    number /= out0_shape[d];
  }}
}}
constexpr int64_t count(bool columns) {{
  int64_t n = 1;
  for (int d = 0; d < RANK; d++) n *= d == AXIS || (columns && d == LAST) ? 1 : out0_shape[d];
  return n;
}}
template <class T>
__device__ __forceinline__ T join(T a, T b) {{ return {combine}; }}
"""

_ROWS = """\
constexpr int V = N >= 64 * VEC ? VEC : ws::widest(N, VEC), WARPS = BLOCK / 32;
constexpr bool EVEN = N % V == 0;
constexpr int64_t OUTER = count(false), PACKS = ws::ceil_div(N, (int64_t)V), TILES = ws::ceil_div(PACKS, (int64_t)BLOCK);
constexpr int64_t PARTS = TILES < SPLIT ? (TILES > 0 ? TILES : 1) : SPLIT, SHARE = ws::ceil_div(TILES, PARTS);
using Values = ws::Pack<float, V>;

// Pack `pack` of a row in the order of the scan; the identity where there is nothing to read.
__device__ __forceinline__ Values take(const Operands& o, int64_t (&at)[RANK], int64_t pack) {
  Values values;
  at[LAST] = REVERSE ? N - (pack + 1) * V : pack * V;
  if ((EVEN || !REVERSE) && at[LAST] >= 0 && at[LAST] + V <= COUNT) return prologue0<V>(o, at);
#pragma unroll
  for (int v = 0; v < V; v++) {
    values.at[v] = at[LAST] >= 0 && at[LAST] < COUNT ? prologue0<1>(o, at).at[0] : IDENTITY;
    at[LAST]++;
  }
  return values;
}
// All of a pack, in the order of the scan.
__device__ __forceinline__ float whole(const Values& values) {
  float all = values.at[REVERSE ? V - 1 : 0];
#pragma unroll
  for (int v = 1; v < V; v++) all = join(all, values.at[REVERSE ? V - 1 - v : v]);
  return all;
}
// A pack in the order of the scan, where it belongs.
__device__ __forceinline__ void give(const Operands& o, int64_t (&at)[RANK], int64_t pack, const Values& values) {
  if constexpr (EVEN) {
    at[LAST] = REVERSE ? N - (pack + 1) * V : pack * V;
    if (pack < PACKS) epilogue<V>(o, values, at);
  } else {
    __shared__ __align__(16) float rows[WARPS][32 * V];
    const int lane = threadIdx.x % 32;
    float* const own = rows[threadIdx.x / 32];
    *(Values*)(own + (REVERSE ? 31 - lane : lane) * V) = values;
    __syncwarp();
    const int64_t least = REVERSE ? N - (pack - lane + 32) * V : (pack - lane) * V;
#pragma unroll
    for (int v = 0; v < V; v++) {
      at[LAST] = least + v * 32 + lane;
      if (at[LAST] >= 0 && at[LAST] < N) epilogue<1>(o, {{own[v * 32 + lane]}}, at);
    }
    __syncwarp();
  }
}
// What the threads before this one have together, and what all have. One barrier: `turn` alternates between calls.
__device__ __forceinline__ float before(float mine, float& all, int turn) {
  __shared__ float both[2][WARPS];
  float* const warps = both[turn];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float other = __shfl_up_sync(ws::FULL, mine, step);
    if (lane >= step) mine = join(other, mine);
  }
  if (lane == 31) warps[warp] = mine;
  __syncthreads();
  float earlier = lane < WARPS ? warps[lane] : IDENTITY;
#pragma unroll
  for (int step = 1; step < WARPS; step *= 2) {
    const float other = __shfl_up_sync(ws::FULL, earlier, step);
    if (lane >= step) earlier = join(other, earlier);
  }
  all = __shfl_sync(ws::FULL, earlier, WARPS - 1);
  earlier = __shfl_sync(ws::FULL, earlier, warp > 0 ? warp - 1 : 0);
  if (warp == 0) earlier = IDENTITY;
  const float left = __shfl_up_sync(ws::FULL, mine, 1);
  return lane == 0 ? earlier : join(earlier, left);
}

__global__ void __launch_bounds__(BLOCK, 1) scan(Operands o, const double* parts) {
  int64_t at[RANK];
  const int64_t row = blockIdx.x / PARTS;
  const int part = (int)(blockIdx.x % PARTS);
  place(row, at, false);
  double carry = IDENTITY;
  for (int p = 0; p < part; p++) carry = join(carry, parts[row * PARTS + p]);
  const int64_t end = (part + 1) * SHARE < TILES ? (part + 1) * SHARE : TILES;
  Values next = take(o, at, part * SHARE * BLOCK + threadIdx.x), after = next;
  if (part * SHARE + 1 < end) after = take(o, at, (part * SHARE + 1) * BLOCK + threadIdx.x);
  for (int64_t tile = part * SHARE; tile < end; tile++) {
    Values values = next;
    const int64_t pack = tile * BLOCK + threadIdx.x;
    next = after;
    if (tile + 2 < end) after = take(o, at, pack + 2 * BLOCK);
    float all;
    float run = join((float)carry, before(whole(values), all, (int)(tile & 1)));
#pragma unroll
    for (int k = 0; k < V; k++) {
      const int v = REVERSE ? V - 1 - k : k;
      const float now = join(run, values.at[v]);
      values.at[v] = EXCLUSIVE ? run : now;
      run = now;
    }
    give(o, at, pack, values);
    carry = join(carry, (double)all);
  }
}

// What each part of a row adds up to.
__global__ void __launch_bounds__(BLOCK) totals(Operands o, double* parts) {
  int64_t at[RANK];
  const int64_t row = blockIdx.x / PARTS, part = blockIdx.x % PARTS;
  place(row, at, false);
  double carry = IDENTITY;
  const int64_t end = (part + 1) * SHARE < TILES ? (part + 1) * SHARE : TILES;
  for (int64_t tile = part * SHARE; tile < end; tile++) {
    float all;
    before(whole(take(o, at, tile * BLOCK + threadIdx.x)), all, (int)(tile & 1));
    carry = join(carry, (double)all);
  }
  if (threadIdx.x == 0) parts[blockIdx.x] = carry;
}
"""

_COLUMNS = """\
constexpr int V = ws::widest(WIDTH, VEC);
constexpr int64_t ACROSS = WIDTH / V, TASKS = count(true) * ACROSS;
using Values = ws::Pack<float, V>;

__global__ void __launch_bounds__(BLOCK) scan(Operands o) {
  const int64_t task = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (task >= TASKS) return;
  int64_t at[RANK];
  place(task / ACROSS, at, true);
  at[LAST] = task % ACROSS * V;
  double carry[V];
#pragma unroll
  for (int v = 0; v < V; v++) carry[v] = IDENTITY;
  for (int64_t first = 0; first < N; first += UNROLL) {
    Values values[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
      const int64_t i = first + u - EXCLUSIVE;  // of the source: an exclusive scan is one behind
      at[AXIS] = REVERSE ? N - 1 - i : i;
      if (i >= 0 && i < COUNT) values[u] = prologue0<V>(o, at);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
      const int64_t i = first + u;
      if (i >= N) break;
#pragma unroll
      for (int v = 0; v < V; v++) {
        if (!EXCLUSIVE || i > 0) carry[v] = join(carry[v], (double)values[u].at[v]);
        values[u].at[v] = (float)carry[v];
      }
      at[AXIS] = REVERSE ? N - 1 - i : i;
      epilogue<V>(o, values[u], at);
    }
  }
}
"""


def scan_kernels(
    top: Writer, kind: str, rank: int, axis: int, reverse: bool, exclusive: bool
) -> tuple[list[Launch], str, str]:
    """Writes the constants to `top`. Returns the launches, what goes after the chains, and the workspace."""
    identity, combine = COMBINE[kind]
    if kind in ("maximum", "minimum"):
        identity = f"{'-' if kind == 'maximum' else ''}ws::infinity"
    flags = {name: "true" if on else "false" for name, on in (("reverse", reverse), ("exclusive", exclusive))}
    for line in _CONSTANTS.format(
        rank=rank, axis=axis, identity=identity, combine=combine, **flags
    ).splitlines():
        top.line(line)
    if axis != rank - 1:
        return [Launch("scan", "ws::ceil_div(TASKS, (int64_t)BLOCK)", "BLOCK", struct=True)], _COLUMNS, ""
    launches = [
        Launch("totals", "(PARTS > 1 ? OUTER * PARTS : 0)", "BLOCK", extra="(double*)workspace", struct=True),
        Launch("scan", "OUTER * PARTS", "BLOCK", extra="(const double*)workspace", struct=True),
    ]
    return (
        launches,
        _ROWS,
        "(uint64_t)SPLIT * sizeof(double) * (out0_numel / (out0_shape[out0_rank - 1] > 0 ? out0_shape[out0_rank - 1] : 1))",
    )
