"""Scans on a GPU: along the last dimension a block takes a row (or a part of it) tile by tile, along another one a thread
takes neighbouring columns.

In: what is scanned and in which form. Out: kernels, general in all shapes. `prologue0` brings packs of the source,
`epilogue` stores packs of the result. Within a tile: each thread's own pack, then shuffles in warps, then the warps'
totals (Hillis and Steele 1986); what is carried from tile to tile is double. Two tiles are under way while one is
scanned. Rows that are no whole number of packs are stored through shared memory, so that neighbouring threads store
neighbouring elements. A split row is read twice: for what its parts add up to, and for the scan.
"""

from __future__ import annotations

from ....codegen.cuda.cuda_source import Launch
from ....codegen.templates import render
from ....codegen.writer import Writer
from ..scan_pattern import COMBINE


def scan_kernels(
    top: Writer, kind: str, rank: int, axis: int, reverse: bool, exclusive: bool
) -> tuple[list[Launch], str, str]:
    """Writes the constants to `top`. Returns the launches, what goes after the chains, and the workspace."""
    identity, combine = COMBINE[kind]
    if kind in ("maximum", "minimum"):
        identity = f"{'-' if kind == 'maximum' else ''}ws::infinity"
    flags = {name: "true" if on else "false" for name, on in (("reverse", reverse), ("exclusive", exclusive))}
    layout = render(
        "scan/cuda/scan_layout.cuh", rank=rank, axis=axis, identity=identity, combine=combine, **flags
    )
    for line in layout.splitlines():
        top.line(line)
    if axis != rank - 1:
        return (
            [Launch("scan", "ws::ceil_div(TASKS, (int64_t)BLOCK)", "BLOCK", struct=True)],
            render("scan/cuda/scan_columns.cuh"),
            "",
        )
    launches = [
        Launch("totals", "(PARTS > 1 ? OUTER * PARTS : 0)", "BLOCK", extra="(double*)workspace", struct=True),
        Launch("scan", "OUTER * PARTS", "BLOCK", extra="(const double*)workspace", struct=True),
    ]
    return (
        launches,
        render("scan/cuda/scan_rows.cuh"),
        "(uint64_t)SPLIT * sizeof(double) * (out0_numel / (out0_shape[out0_rank - 1] > 0 ? out0_shape[out0_rank - 1] : 1))",
    )
