"""A product one of whose factors has few rows or columns (a matrix times a vector above all): read once, at the speed of
memory, on ordinary units.

In: a product that `gemm_operands` has declared; which factor is the big one, and whether it lies along the sum. Out:
its kernel, for float32 and fp16. `dots`: GROUP threads walk ROWS_PER_GROUP rows of the big factor side by side, pack by pack, with
the few rows of the small one, which stay in the cache. `columns`, where neighbours along the sum are far apart: a warp
takes neighbouring columns, and the warps of a block share the sum. Either way SPLIT blocks may share a sum.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....codegen.cuda.cuda_source import Launch
from ....codegen.templates import render
from ..product import Named
from .gemm_operands import MatrixTable, render_table_start

MOST = 8  # rows of the small factor that a thread takes at once


@dataclass(frozen=True)
class Skinny:
    right: bool  # the big factor is the right one
    along: bool  # and lies along the sum


def skinny_slice(skinny: Skinny) -> str:
    """BK, before everything else."""
    return f"constexpr int BK = {'GROUP * 8' if skinny.along else '64'};"


def emit_skinny_kernels(
    named: Named, skinny: Skinny, table: MatrixTable | None = None
) -> tuple[list[Launch], str]:
    """`table`: where the matrices of the big factor are picked from, if they are."""
    big, small = ("RIGHT", "LEFT") if skinny.right else ("LEFT", "RIGHT")
    names = {"LEFT": named.left, "RIGHT": named.right}
    rows = {
        "LEFT": "left_at(b, r)",
        "RIGHT": "right_at(b, 0) + r * RIGHT_N",
    }
    # Columns of a lane are also what its warp's sums take of shared memory, of which a block has 48 KiB.
    width = f"{big}_VEC" if skinny.along else f"({big}_VEC < 4 ? {big}_VEC : 4)"
    text = ""
    if table is not None:
        factor = named.product.right if skinny.right else named.product.left
        text, names[big] = render_table_start(factor, table), table.operand
        rows[big] += " + table_start(o, b)"
    text += render(
        "gemm/cuda/gemm_skinny_operands.cuh",
        rows="N" if skinny.right else "M",
        few="M" if skinny.right else "N",
        most=MOST,
        width=width,
        small_width=f"{small}_ALONG ? {small}_VEC : 1",
        big=names[big],
        big_type=f"{big.lower()}_t",
        big_stride=f"{big}_K",
        big_row=rows[big],
        small=names[small],
        small_type=f"{small.lower()}_t",
        small_stride=f"{small}_K",
        small_row=rows[small],
        place="x, y" if skinny.right else "y, x",
        partial_place="(b * M + x) * N + y" if skinny.right else "(b * M + y) * N + x",
    )
    tiles = render("gemm/cuda/gemm_skinny_tiles.cuh").rstrip("\n")
    if skinny.along:
        text += render("gemm/cuda/gemm_skinny_dot.cuh", tiles=tiles)
    else:
        text += render("gemm/cuda/gemm_skinny_columns.cuh", tiles=tiles)
    text += render("gemm/cuda/gemm_skinny.cuh")
    launch = Launch(
        "product", "BLOCKS * PARTS", "SIZE", extra="(float*)workspace", struct=True,
    )  # fmt: skip
    return [launch], text
