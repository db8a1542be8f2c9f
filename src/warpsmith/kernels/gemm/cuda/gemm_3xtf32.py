"""A float32 product on tensor cores, warp by warp (`mma.sync`), as exact as plain float32.

In: a product that `gemm_operands` has declared. Out: its kernel. Each factor is split into two TF32 numbers, and
low · high + high · low + high · high makes up a product (Ootomo and Yokota 2022, https://arxiv.org/abs/2203.03341).
Tensor cores cut off what they add, so that long sums would drift towards zero: eight terms at a time are added there,
starting from zero, and the sums of those by the ordinary units, rounded to nearest.

A block makes a tile of BM x BN results, a warp WM x 32 of them. Slices of BK terms come by `cp.async`, STAGES of them
under way or in use. A factor that lies along the sum keeps its rows in shared memory, BK + 4 floats apart, for `ldmatrix`;
one that lies across it keeps slices of neighbours, BM + 8 or BN + 8 apart: either way no two lanes meet in a bank.
"""

from __future__ import annotations

from ....codegen.cuda.cuda_source import Launch
from ....codegen.templates import render

INCLUDE = '#include "warpsmith_cuda_mma.h"'


def emit_3xtf32_kernels(left: str, right: str) -> tuple[list[Launch], str]:
    """`left`, `right`: the factors' operands."""
    launch = Launch(
        "product", "BLOCKS * PARTS", "THREADS", "SHARED", extra="(float*)workspace", struct=True
    )  # fmt: skip
    return [launch], render("gemm/cuda/gemm_3xtf32_mma.cuh", left=left, right=right)
