"""Pooling windows one by one on a GPU: GROUP neighbouring threads share a window, whatever its size, and walk its taps.

In: the windows, fixed or adaptive, and the dimension that packs lie along: channels where they are neighbours in memory,
else none. Out: one kernel, general in all shapes; with the positions of maxima where they are wanted (flat in the image
without padding; a later NaN wins over an earlier one, else the first of equals, as in torch).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..emit.text import Writer
from ..families.pool_windows import Pool
from .pool_boxes import write_windows
from .source import Launch

UNROLLED = 32  # taps of a thread up to which all loads of a window may be under way at once

_TAPS = """\
// A window along one dimension: where it begins, and how many taps it has.
struct Taps {
  int64_t first;
  int count;
};
template <bool FREE>
__device__ __forceinline__ Taps taps(int64_t o, int64_t size, int64_t made, int kernel, int stride, int padding) {
  const int64_t first = FREE ? o * size / made : o * stride - padding;
  return {first, FREE ? (int)(((o + 1) * size + made - 1) / made - first) : kernel};
}
"""

_KERNEL = """\
using Values = ws::Pack<float, V>;
__global__ void __launch_bounds__(BLOCK) pool(Operands o) {
  const index_t number = ((index_t)blockIdx.x * BLOCK + threadIdx.x) / GROUP;
  const int slot = threadIdx.x % GROUP;
  const bool mine = number < TASKS;
  int64_t at[RANK], from[RANK];  // of the result, of the image
  place(mine ? number : (index_t)(TASKS - 1), at);
  for (int d = 0; d < RANK; d++) from[d] = at[d];
  const int64_t z = SPACE > 2 ? at[RANK - (SPACE > 2 ? 3 : 1)] : 0, y = SPACE > 1 ? at[RANK - (SPACE > 1 ? 2 : 1)] : 0;
  const Taps deep = taps<FREE_D>(z, ID, OD, KD, SD, PD), high = taps<FREE_H>(y, IH, OH, KH, SH, PH);
  const Taps wide = taps<FREE_W>(at[RANK - 1], IW, OW, KW, SW, PW);
  const int count = deep.count * high.count * wide.count;
  Values acc;
  int64_t found[V];
#pragma unroll
  for (int v = 0; v < V; v++) acc.at[v] = START, found[v] = -1;
#pragma unroll (TIMES)
  for (int i = slot; i < count; i += GROUP) {
    const int64_t ix = wide.first + i % wide.count * LW, iy = high.first + i / wide.count % high.count * LH;
    const int64_t iz = deep.first + i / (wide.count * high.count) * LD;
    const bool there = ix >= 0 && ix < IW && iy >= 0 && iy < IH && iz >= 0 && iz < ID;
    from[RANK - 1] = there ? ix : 0;  // loads are unconditional, so that none waits for a branch
    if (SPACE > 1) from[RANK - (SPACE > 1 ? 2 : 1)] = there ? iy : 0;
    if (SPACE > 2) from[RANK - (SPACE > 2 ? 3 : 1)] = there ? iz : 0;
    const Values values = prologue0<V>(o, from);
#pragma unroll
    for (int v = 0; v < V; v++) {
      const float x = there ? values.at[v] : START;
      if (INDEX && there && (found[v] < 0 || x > acc.at[v] || x != x)) found[v] = (iz * IH + iy) * IW + ix;
      acc.at[v] = combine(acc.at[v], x);
    }
  }
#pragma unroll
  for (int lanes = GROUP / 2; lanes > 0; lanes /= 2)
#pragma unroll
    for (int v = 0; v < V; v++) acc.at[v] = combine(acc.at[v], __shfl_xor_sync(ws::FULL, acc.at[v], lanes));
  if (!mine || slot != 0) return;
  if (!MAXIMUM) {
    const float size = DIVISOR != 0 ? (float)DIVISOR
                                    : (FREE_D ? (float)deep.count : counted(z, ID, KD, SD, PD)) *
                                          (FREE_H ? (float)high.count : counted(y, IH, KH, SH, PH)) *
                                          (FREE_W ? (float)wide.count : counted(at[RANK - 1], IW, KW, SW, PW));
#pragma unroll
    for (int v = 0; v < V; v++) acc.at[v] /= size;
  }
  epilogue<V>(o, acc, at);
  keep(o, at, found);
}
"""


def tap_kernels(
    top: Writer, pool: Pool, rank: int, sizes: Sequence[str], run: int, index: str
) -> tuple[list[Launch], str, str]:
    """`sizes` as for `box_kernels`. `run`: the dimension of packs, -1: single elements. `index`: the operand that takes the
    positions, "" for none. See `CudaAnchored.kernels`."""
    write_windows(top, pool, rank, sizes)
    taps = " * ".join("0" if w.adaptive else str(w.kernel) for w in pool.windows)
    top.line(f"constexpr int V = {f'ws::widest(out0_shape[{run}], VEC)' if run >= 0 else '1'};")
    top.line(f"constexpr bool INDEX = {str(bool(index)).lower()};")
    top.line(f"constexpr int FIXED = ws::ceil_div({taps}, GROUP);  // taps of a thread; 0: not known here")
    top.line(f"constexpr int TIMES = FIXED == 0 || FIXED > {UNROLLED} ? 4 : FIXED;")
    top.line("constexpr int64_t TASKS = out0_numel / V;")
    top.line("using index_t = ws::Int<TASKS * GROUP + 1024>;")
    with top.block("__device__ __forceinline__ void place(index_t number, int64_t (&at)[RANK])"):
        order = [run] if run >= 0 else []
        for d in [*order, *(d for d in range(rank - 1, -1, -1) if d != run)]:
            packs = " / V" if d == run else ""
            top.line(f"at[{d}] = number % (index_t)(out0_shape[{d}]{packs}){' * V' if packs else ''};")
            top.line(f"number /= (index_t)(out0_shape[{d}]{packs});")
    head = "__device__ __forceinline__ void keep([[maybe_unused]] const Operands& o, const int64_t* at, const int64_t* found)"
    with top.block(head):
        if index:
            offset = " + ".join(f"at[{d}] * {index}_stride[{d}]" for d in range(rank))
            step = f"{index}_stride[{run}]" if run >= 0 else "1"
            top.line(f"for (int v = 0; v < V; v++) o.{index}[{offset} + v * {step}] = found[v];")
    launch = Launch("pool", "ws::ceil_div(TASKS * GROUP, (int64_t)BLOCK)", "BLOCK", struct=True)
    return [launch], _TAPS + _KERNEL, ""
