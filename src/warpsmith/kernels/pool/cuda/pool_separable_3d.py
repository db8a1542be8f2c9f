"""Pooling windows over volumes on a GPU, one dimension after the other: a block takes rows of outputs and goes through the
planes of the image, each of which it reads once.

In: windows over three dimensions that overlap along the depth. Out: one kernel, general in all shapes. A thread has a pack
of columns of one row of outputs: of each plane it combines the rows of its windows (height), keeps the last planes in
registers, and combines those of a window (depth); only then do the threads of a row exchange columns through shared memory
(width). The planes of the next step are under way meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....codegen.cuda.cuda_source import Launch
from ....codegen.templates import render
from ....codegen.writer import Writer
from ..pool_windows import Pool
from .pool_register_tiled import write_windows


def emit_pool_separable_3d_kernels(
    top: Writer, pool: Pool, rank: int, sizes: Sequence[str]
) -> tuple[list[Launch], str, str]:
    """`sizes` as for `emit_pool_register_tiled_kernels`. See `CudaAnchored.kernels`."""
    write_windows(top, pool, rank, sizes)
    return [Launch("pool", "BLOCKS", "THREADS", struct=True)], render("pool/cuda/pool_separable_3d.cuh"), ""
