"""A product one of whose factors has few rows or columns (a matrix times a vector above all): read once, at the speed of
memory, on ordinary units.

In: a product that `emit_cuda.product` has declared; which factor is the big one, and whether it lies along the sum. Out:
its kernel, for float32 and halves. `dots`: GROUP threads walk TALL rows of the big factor side by side, pack by pack, with
the few rows of the small one, which stay in the cache. `columns`, where neighbours along the sum are far apart: a warp
takes neighbouring columns, and the warps of a block share the sum. Either way SPLIT blocks may share a sum.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..emit.product import Named
from .source import Launch

MOST = 8  # rows of the small factor that a thread takes at once


@dataclass(frozen=True)
class Skinny:
    right: bool  # the big factor is the right one
    along: bool  # and lies along the sum


def skinny_slice(skinny: Skinny) -> str:
    """BK, before everything else."""
    return f"constexpr int BK = {'GROUP * 8' if skinny.along else '64'};"


def skinny_kernels(named: Named, skinny: Skinny) -> tuple[list[Launch], str]:
    big, small = ("RIGHT", "LEFT") if skinny.right else ("LEFT", "RIGHT")
    names = {"LEFT": named.left, "RIGHT": named.right}
    rows = {
        "LEFT": "left_at(b, r)",
        "RIGHT": "right_at(b, 0) + r * RIGHT_N",
    }
    place = "x, y" if skinny.right else "y, x"
    # Columns of a lane are also what its warp's sums take of shared memory, of which a block has 48 KiB.
    width = f"{big}_VEC" if skinny.along else f"({big}_VEC < 4 ? {big}_VEC : 4)"
    text = f"""
constexpr int64_t TALLEST = {"N" if skinny.right else "M"}, FEW = {"M" if skinny.right else "N"};
constexpr int64_t BIG_K = {big}_K, SMALL_K = {small}_K;
constexpr int V = {width}, SMALL_VEC = {small}_ALONG ? {small}_VEC : 1, F = (int)(FEW < {MOST} ? (FEW > 0 ? FEW : 1) : {MOST});
using big_t = {big.lower()}_t;
using small_t = {small.lower()}_t;
// Where row r of either factor begins.
__device__ __forceinline__ const big_t* big_row(const Operands& o, int64_t b, int64_t r) {{ return o.{names[big]} + {rows[big]}; }}
__device__ __forceinline__ const small_t* small_row(const Operands& o, int64_t b, int64_t r) {{ return o.{names[small]} + {rows[small]}; }}
// The sum of row y of the big factor and row x of the small one, to the outputs or to its part's.
__device__ __forceinline__ void deliver(const Operands& o, int64_t b, int64_t y, int64_t x, float sum, float* partial) {{
  if (y >= TALLEST || x >= FEW) return;
  if constexpr (PARTS == 1) finish<1>(o, b, {place}, ws::Pack<float, 1>{{{{sum}}}});
  else partial[{"(b * M + x) * N + y" if skinny.right else "(b * M + y) * N + x"}] = sum;
}}
"""
    launch = Launch(
        "product", "BLOCKS * PARTS", "SIZE", extra="(float*)workspace", struct=True,
    )  # fmt: skip
    return [launch], text + (_DOTS if skinny.along else _COLUMNS) + _KERNEL


# What both kernels begin with, and the sums that they end with.
_KERNEL = """
__global__ void __launch_bounds__(SIZE) product(Operands o, float* partial) {
  constexpr unsigned ALL = BLOCKS > 0 ? (unsigned)BLOCKS : 1, DOWN = TILES > 0 ? (unsigned)TILES : 1;
  const int part = (int)(blockIdx.x / ALL);
  const unsigned number = blockIdx.x % ALL;
  const int64_t b = number / (DOWN * (unsigned)FEWS), x = number / DOWN % (unsigned)FEWS * F, y = (int64_t)(number % DOWN) * TILE;
  const int64_t start = part * SHARE * BK, end = start + SHARE * BK < K ? start + SHARE * BK : K;
  multiply(o, b, y, x, start, end, partial + part * BATCH * M * N);
}
"""

_PLACES = """
constexpr int64_t TILES = ws::ceil_div(TALLEST, (int64_t)TILE), FEWS = FEW > 0 ? ws::ceil_div(FEW, (int64_t)F) : 1;
constexpr int64_t BLOCKS = FEW > 0 ? BATCH * FEWS * TILES : 0;
static_assert(BLOCKS * PARTS < 0x7fffffff, "requires: fewer than 2^31 blocks");
"""

_DOTS = f"""
constexpr int SIZE = GROUP > 128 ? GROUP : 128, TEAMS = SIZE / GROUP, TILE = TEAMS * TALL;
{_PLACES.strip()}

__device__ __forceinline__ void multiply(
    const Operands& o, int64_t b, int64_t y, int64_t x, int64_t start, int64_t end, float* partial) {{
  constexpr bool WHOLE = SMALL_VEC % V == 0;
  const int slot = threadIdx.x % GROUP, team = threadIdx.x / GROUP, lane = threadIdx.x % 32;
  y += team * TALL;
  const big_t* big[TALL];
  const small_t* small[F];
#pragma unroll
  for (int i = 0; i < TALL; i++) big[i] = big_row(o, b, y + i < TALLEST ? y + i : TALLEST - 1);
#pragma unroll
  for (int f = 0; f < F; f++) small[f] = small_row(o, b, x + f < FEW ? x + f : FEW - 1);
  float sums[TALL][F] = {{}};
#pragma unroll 2
  for (int64_t k = start + slot * V; k < end; k += GROUP * V) {{
    ws::Pack<big_t, V> values[TALL];
    ws::Pack<small_t, V> factors[F];
#pragma unroll
    for (int i = 0; i < TALL; i++) values[i] = ws::read<V, BIG_K, true>(big[i] + k * BIG_K);
#pragma unroll
    for (int f = 0; f < F; f++) factors[f] = ws::read<V, SMALL_K, WHOLE>(small[f] + k * SMALL_K);
#pragma unroll
    for (int i = 0; i < TALL; i++)
#pragma unroll
      for (int f = 0; f < F; f++)
#pragma unroll
        for (int v = 0; v < V; v++)
          sums[i][f] = fmaf(ws::load_as(values[i].at[v]), ws::load_as(factors[f].at[v]), sums[i][f]);
  }}
  // Warps first; then, where several share the rows, their sums in their order.
  constexpr int WARPS = GROUP / 32;
  __shared__ float room[SIZE / 32][TALL * F];
#pragma unroll
  for (int i = 0; i < TALL; i++)
#pragma unroll
    for (int f = 0; f < F; f++) {{
      const float sum = ws::warp_sum(sums[i][f]);
      if (lane == 0) room[threadIdx.x / 32][i * F + f] = sum;
    }}
  __syncthreads();
  for (int i = slot; i < TALL * F; i += GROUP) {{
    float sum = room[team * WARPS][i];
#pragma unroll
    for (int w = 1; w < WARPS; w++) sum += room[team * WARPS + w][i];
    deliver(o, b, y + i / F, x + i % F, sum, partial);
  }}
}}
"""

_COLUMNS = f"""
constexpr int SIZE = 32 * GROUP, TILE = 32 * V;
{_PLACES.strip()}

__device__ __forceinline__ void multiply(
    const Operands& o, int64_t b, int64_t y, int64_t x, int64_t start, int64_t end, float* partial) {{
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t mine = y + lane * V < TALLEST ? y + lane * V : 0;  // a column of its own, or another one once more
  const big_t* const big = big_row(o, b, mine);
  const small_t* small[F];
#pragma unroll
  for (int f = 0; f < F; f++) small[f] = small_row(o, b, x + f < FEW ? x + f : FEW - 1);
  float sums[F][V] = {{}};
#pragma unroll 8
  for (int64_t k = start + warp; k < end; k += GROUP) {{
    const ws::Pack<big_t, V> values = ws::read<V, 1, true>(big + k * BIG_K);
#pragma unroll
    for (int f = 0; f < F; f++) {{
      const float factor = ws::load_as(small[f][k * SMALL_K]);
#pragma unroll
      for (int v = 0; v < V; v++) sums[f][v] = fmaf(ws::load_as(values.at[v]), factor, sums[f][v]);
    }}
  }}
  __shared__ float room[GROUP][F][TILE];
#pragma unroll
  for (int f = 0; f < F; f++)
#pragma unroll
    for (int v = 0; v < V; v++) room[warp][f][v * 32 + lane] = sums[f][v];
  __syncthreads();
  for (int i = threadIdx.x; i < F * TILE; i += SIZE) {{
    const int f = i / TILE, at = i % TILE;
    float sum = room[0][f][at];
#pragma unroll
    for (int w = 1; w < GROUP; w++) sum += room[w][f][at];
    deliver(o, b, y + at % 32 * V + at / 32, x + f, sum, partial);
  }}
}}
"""
