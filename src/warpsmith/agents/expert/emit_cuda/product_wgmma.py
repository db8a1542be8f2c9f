"""A float32 product on Hopper's tensor cores, warpgroup by warpgroup (`wgmma`), as exact as plain float32.

In: a product that `emit_cuda.product` has declared. Out: its kernels: `split` (`emit_cuda.product_halves`), then `product`.
There one thread asks for tiles of both factors by bulk copies, STAGES ahead; two warpgroups of a 128 x 128 block multiply:
low · high + high · low + high · high, small ones first. Tensor cores cut off what they add, so that long sums would drift
towards zero: each sum starts from zero and holds BK terms, and is scaled back and added by the ordinary units, rounded to
nearest, while those of the next BK terms are under way. Blocks stay and take tile after tile: the next one's copies run
while sums are stored.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ....kernels.templates import render
from ....records import Tunable
from ..families.base import Technique, tunable
from .product_halves import DEPTH, IMAGES, SIDE, split_kernel
from .source import Launch

INCLUDE = '#include "warpsmith_cuda_wgmma.h"'
RATE, BANDWIDTH = 2.1e14, 3.8e12  # of an H200: what three products of halves come to, bytes per second
BLOCKS = 132  # multiprocessors of an H200; right with any number
SPLITS = (1, 2, 3, 4, 6, 8, 11, 16, 22, 33)
START_US = 4.0  # of both kernels

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


def wgmma_kernels(
    left: str, right: str, left_map: str = "as_it_is", roles: Roles | None = None
) -> tuple[list[Launch], str]:
    """As `split_kernel`, of both factors where there are no `roles` of another kind: tiles of both are copied."""
    split, text = split_kernel(left, right, left_map, both=roles is None)
    extra = f"{IMAGES}, (float*)workspace"
    product = Launch(
        "product", "(WORK < BLOCKS ? WORK : BLOCKS)", "THREADS", "SHARED", extra=extra, struct=True
    )
    kernel = render("gemm/cuda/gemm_3xfp16_wgmma.cuh", **asdict(roles or _make_copying_roles()))
    return [split, product], text + kernel


def wgmma_technique(
    batch: int, rows: int, columns: int, depth: int, moved: int, share: float, stream: Tunable
) -> Technique | None:
    """`moved`: bytes of all operands; `share`: of the result that is computed. None for products that are small or thin
    in some direction: tiles would be mostly empty, or splitting the factors the greater work."""
    if min(rows, columns) < SIDE // 2 or depth < DEPTH // 2:
        return None
    tiles = max(1.0, share * batch * -(-rows // SIDE) * -(-columns // SIDE))
    slices = -(-depth // DEPTH)

    tunables, us = tuned(tiles, slices, batch * rows * columns, (8, 16, 4), stream)
    factors = 4.0 * batch * depth * (rows + columns)
    through = max(us, moved / BANDWIDTH * 1e6)
    why = "each factor as two scaled halves, three products of them by warpgroup: as exact as float32"
    return Technique("wgmma", why, "compute", tunables, us=through + 2 * factors / BANDWIDTH * 1e6 + START_US)


def tuned(
    tiles: float, slices: int, results: int, groups: tuple[int, ...], stream: Tunable
) -> tuple[tuple[Tunable, ...], float]:
    """With sums in as many parts as is best, and the microseconds that the products then take. `groups`: values of GROUP."""

    def us(split: int) -> float:
        waves = -(-tiles * split // BLOCKS)
        flops = (
            2.0 * SIDE * SIDE * DEPTH * (-(-slices // split) + 1)
        )  # about a slice's time to begin and to store
        parts = 8.0 * split * results / BANDWIDTH * 1e6 + START_US if split > 1 else 0.0
        return waves * flops / (RATE / BLOCKS) * 1e6 + parts

    most = max(1, slices // 4)
    split = min((s for s in SPLITS if s <= most), key=us)
    others = {s for s in (1, split // 2, 2 * split) if 1 <= s <= most} - {split}
    tunables = (
        tunable("BK", DEPTH), tunable("STAGES", 3, 2), tunable("GROUP", *groups), tunable("BLOCKS", BLOCKS),
        tunable("SPLIT", split, *sorted(others)), stream,
    )  # fmt: skip
    return tunables, us(split)
