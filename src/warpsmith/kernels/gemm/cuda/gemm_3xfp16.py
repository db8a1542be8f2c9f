"""A float32 product on Hopper's tensor cores, warpgroup by warpgroup (`wgmma`), as exact as plain float32.

In: a product that `gemm_operands` has declared. Out: its kernels: `split` (`split_fp16`), then `product`.
There one thread asks for tiles of both factors by bulk copies, STAGES ahead; two warpgroups of a 128 x 128 block multiply:
low · high + high · low + high · high, small ones first. Tensor cores cut off what they add, so that long sums would drift
towards zero: each sum starts from zero and holds BK terms, and is scaled back and added by the ordinary units, rounded to
nearest, while those of the next BK terms are under way. Blocks stay and take tile after tile: the next one's copies run
while sums are stored.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ....codegen.cuda.cuda_source import Launch
from ....codegen.templates import render
from .split_fp16 import IMAGES, split_kernel

INCLUDE = '#include "warpsmith_cuda_wgmma.h"'

_GIVE = """\
    __syncwarp();
    if (lane == 0) ws::barrier_arrive(empty + behind);"""
_SOME = """\
  // Sums of one slice, and of the next one: those are under way while the first are scaled and added.
  float some[2][64] = {};"""


@dataclass(frozen=True)
class Roles:
    """How the kernel is filled in: who brings tiles, and how the warpgroups that multiply go from slice to slice."""

    threads: int
    feeders: str
    fed: int  # arrivals until a stage is full
    read: int  # arrivals until it is free
    registers: int  # of a thread that multiplies
    feed: str
    some: str
    multiply: str
    give: str  # after a stage was read


def _make_copying_roles() -> Roles:
    """Tiles of both factors are copied."""
    feed = render("gemm/cuda/gemm_3xfp16_wgmma_producer.cuh").rstrip("\n")
    multiply = render("gemm/cuda/gemm_3xfp16_wgmma_mainloop.cuh").rstrip("\n")
    return Roles(384, "one of which a thread asks for tiles", 1, 8, 240, feed, _SOME, multiply, _GIVE)


def emit_3xfp16_kernels(
    left: str, right: str, left_map: str = "as_it_is", roles: Roles | None = None
) -> tuple[list[Launch], str]:
    """Emit the kernels after `split_kernel`, of both factors where there are no `roles` of another kind: tiles of both are copied."""
    split, text = split_kernel(left, right, left_map, both=roles is None)
    extra = f"{IMAGES}, (float*)workspace"
    product = Launch(
        "product", "(WORK < BLOCKS ? WORK : BLOCKS)", "THREADS", "SHARED", extra=extra, struct=True
    )
    kernel = render("gemm/cuda/gemm_3xfp16_wgmma.cuh", **asdict(roles or _make_copying_roles()))
    return [split, product], text + kernel
