"""The factors of a float32 product as tiles of fp16, for Hopper's tensor cores.

In: a product that `gemm_operands` has declared. Out: the kernel `split`, which turns each factor into tiles of 128 rows
by BK terms: every row of a tile is scaled by a power of two so that its largest element lies in [2^14, 2^15), and each
element becomes the sum of two fp16 numbers, of 11 bits each (Ootomo and Yokota 2022, https://arxiv.org/abs/2203.03341; the
scales make up for fp16's few exponents: what is lost is below 2^-22 of the element and 2^-39 of the row's largest).
That is what two TF32 numbers keep, at twice the rate and half the bytes. Tiles lie in the workspace as they will in shared
memory, the high part and then the low one; after all of them their scales.
"""

from __future__ import annotations

from ....codegen.cuda.cuda_source import Launch
from ....codegen.templates import render
from ..product import Named
from .gemm_operands import parts_bytes

SIDE, DEPTH = 128, 64  # of a tile
TILE_BYTES = 4 * SIDE * DEPTH + 4 * SIDE  # its parts and its scales
IMAGES = "(unsigned char*)workspace + PARTS_ROOM"


def split_kernel(left: str, right: str, left_map: str = "as_it_is", both: bool = True) -> tuple[Launch, str]:
    """`left`, `right`: the factors' operands; `left_map`: `map` of the left one's tiles. Not `both`: only the left one is split."""
    launch = Launch("split", "(TILES > 0 ? IMAGES : 0)", "256", extra=IMAGES, struct=True)
    images = "LEFT_IMAGES + BATCH * OVER * SLICES" if both else "LEFT_IMAGES"
    text = render("gemm/cuda/gemm_3xfp16_split.cuh", left=left, right=right, images=images, left_map=left_map)
    return launch, text


def split_fp16_bytes(named: Named, both: bool = True) -> str:
    """Return the bytes of the workspace, in terms of task.h and tunables: sums of parts, then tiles of both factors, or of the left one alone."""
    slices, sides = f"(({named.depth}) / {DEPTH} + 1)", (named.rows, *([named.columns] if both else []))
    lines = " + ".join(f"(({side}) + {SIDE - 1}) / {SIDE}" for side in sides)
    return f"({parts_bytes(named)}) + 128 + (uint64_t){TILE_BYTES} * ({named.batch}) * {slices} * ({lines})"
