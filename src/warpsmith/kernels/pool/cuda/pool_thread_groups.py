"""Pooling windows one by one on a GPU: GROUP neighbouring threads share a window, whatever its size, and walk its taps.

In: the windows, fixed or adaptive, and the dimension that packs lie along: channels where they are neighbours in memory,
else none. Out: one kernel, general in all shapes; with the positions of maxima where they are wanted (flat in the image
without padding; a later NaN wins over an earlier one, else the first of equals, as in torch).
"""

from __future__ import annotations

from collections.abc import Sequence

from ....codegen.cuda.cuda_source import Launch
from ....codegen.templates import render
from ....codegen.writer import Writer
from ..pool_windows import Pool
from .pool_register_tiled import write_windows

UNROLLED = 32  # taps of a thread up to which all loads of a window may be under way at once


def emit_pool_thread_group_kernels(
    top: Writer, pool: Pool, rank: int, sizes: Sequence[str], run: int, index: str
) -> tuple[list[Launch], str, str]:
    """`sizes` as for `emit_pool_register_tiled_kernels`. `run`: the dimension of packs, -1: single elements. `index`: the operand that takes the
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
    return [launch], render("pool/cuda/pool_window_per_thread_group.cuh"), ""
