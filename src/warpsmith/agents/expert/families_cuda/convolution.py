"""Convolutions and transposed convolutions with enough arithmetic per element for tensor cores, with the pointwise nodes
after them, in one, two or three dimensions and any stride, padding, dilation and number of groups.

In: float32 images whose rows are dense; others stay the library's, and convolutions of little arithmetic are another
family's (`convolution_kinds`). Products are TF32, as the library's are by default.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import prod

from ....records import Graph, Node, Region, Tunable
from ...facts import Facts
from ..costs import region_bytes
from ..emit.text import Writer
from ..emit_cuda.flat import flat_kernels
from ..emit_cuda.halves import halves_kernels
from ..emit_cuda.implicit import Convolved, implicit_kernels
from ..emit_cuda.implicit_store import STORE
from ..emit_cuda.source import Launch
from ..families.anchored import Anchor, Core
from ..families.base import Technique, tunable
from ..families.convolution import Convolution, zeros_around
from .anchored import CudaAnchored
from .base import MULTIPROCESSORS, SHARED_KIB
from .convolution_kinds import (
    NO_LIMITS,
    Kind,
    Limits,
    groups_text,
    is_direct,
    reach,
    read_kind,
    side_by_side,
    taps_of,
    up,
)
from .flat_tiles import EACH, Whole, flat_technique
from .halves_tiles import EXACT, halves_technique

BANDWIDTH, RATE = 3.5e6, 100e6  # bytes and operations a microsecond that it reaches on an H200
START_US = 7.0  # of two kernels
WIDTHS = (128, 96, 64, 48, 32, 24, 16, 8)  # channels of a block
STAGES = 3
FEW_CHANNELS = 8  # of a group, up to which libraries tend to compute in float32
WHY = "every tap reads one patch of the input in shared memory, shifted: no matrix of windows, TF32 tensor cores"
WGMMA_ARCH = "sm_90a"  # the instructions are of this architecture alone
MOST_SUMS, MOST_SLICE = (
    16384,
    512,
)  # of a block, so that two fit a multiprocessor; steps of a slice by channels
ONE_BLOCK = 108 << 10  # bytes of shared memory of which two blocks have no room


@dataclass(frozen=True)
class Depth:
    """Input channels of a patch, a multiple of four; steps of a slice; products of all phases, with idle ones; barriers."""

    chunk: int
    size: int
    terms: int
    waits: float


@dataclass(frozen=True)
class Tile:
    """Pixels of a block, those of a row, planes. `cost`: of the whole, relative."""

    pixels: int
    wide: int
    deep: int
    depth: Depth
    use: float  # share of the products that are wanted
    cost: float


class CudaConvolution(CudaAnchored):
    def __init__(self) -> None:
        super().__init__(Convolution())

    def supports(self, graph: Graph, node: Node) -> bool:
        kind = read_kind(graph, node)
        if kind is None or is_direct(kind) or any(graph.specs[v].dtype != "float32" for v in node.uses):
            return False
        given = graph.specs[str(node.args[0]["v"])]
        dense = given.stride[-1] == 1 or given.shape[-1] == 1
        return (
            dense
            and 0 not in (*given.shape, *node.output.spec.shape)
            and tile_of(kind, node.output.spec.shape) is not None
        )

    def core(self, graph: Graph, node: Node, within: Collection[str]) -> Core:
        """With zeros put around the input, and with a slice that drops the last columns."""
        if node.args[6]:
            return Core((node.name,), node.output.name, ())
        found = self.like.core(graph, node, within)
        return Core(found.nodes, found.value, ())

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        anchor = self.anchor(graph, region)
        kind = read_kind(graph, anchor.node) if anchor is not None else None
        if anchor is None or kind is None:
            return []
        shape, limits = anchor.node.output.spec.shape, self.limits(graph, region, anchor.node, kind)
        large = sum(graph.specs[v].nbytes for v in region.outputs) > 32 << 20
        stream = tunable("NT", int(large), int(not large))
        found: list[Technique | None] = []
        if (tile := tile_of(kind, shape, limits)) is not None:
            tunables = (*_tunables(kind, tile, limits), stream)
            us = _us(graph, region, anchor.node, kind, tile, limits)
            found.append(Technique("patches", WHY, "compute", tunables, us=us))
        if facts.arch in ("", WGMMA_ARCH):
            moved = region_bytes(graph, region)
            found += [halves_technique(kind, shape, terms, moved, stream, limits) for terms in (1, 3)]
            if (whole := self.whole(graph, region, anchor.node, kind)) is not None:
                given = graph.specs[anchor.node.uses[0]].shape
                found.append(flat_technique(kind, given, shape, moved, stream, whole))
        return _ordered(kind, [t for t in found if t is not None])

    def limits(self, graph: Graph, region: Region, node: Node, kind: Kind) -> Limits:
        """Of tiles, for what becomes of the results."""
        return NO_LIMITS

    def whole(self, graph: Graph, region: Region, node: Node, kind: Kind) -> Whole | None:
        """What follows, for `flat`; None where it cannot make that."""
        return EACH

    def kernels(self, top: Writer, anchor: Anchor, technique: Technique) -> tuple[list[Launch], str, str]:
        return self.written(top, self.convolved(anchor), technique)

    def written(
        self, top: Writer, shape: Convolved, technique: Technique, deliver: str = STORE
    ) -> tuple[list[Launch], str, str]:
        """`deliver`: what becomes of the results, see `emit_cuda.implicit_store`."""
        if technique.name == "patches":
            return implicit_kernels(top, shape, deliver)
        if technique.name == "flat":
            return flat_kernels(top, shape)
        return halves_kernels(top, shape, 3 if technique.name == EXACT else 1, deliver)

    def convolved(self, anchor: Anchor) -> Convolved:
        kind, node = read_kind(anchor.graph, anchor.node), anchor.node
        assert kind is not None  # supports() refuses others
        assert anchor.core is not None
        before = kind.padding
        if not kind.transposed:
            zeros, _ = zeros_around(anchor, len(kind.kernel) + 2)
            before = tuple(p + z for p, z in zip(before, zeros, strict=True))
        source = anchor.graph.by_name[anchor.core.nodes[0]].args[0]["v"]
        x, k = anchor.names[source], anchor.names[node.args[1]["v"]]
        bias = anchor.names[node.args[2]["v"]] if node.args[2] is not None else ""
        return Convolved(
            kind.stride, before, kind.dilation, kind.transposed, groups_text(kind, f"{x}_shape[1]", k), x, k, bias,
        )  # fmt: skip


def _ordered(kind: Kind, found: list[Technique]) -> list[Technique]:
    """Most promising first. Where the library may well compute in float32, what is less exact comes last."""
    exact = next((t.us for t in found if t.name == EXACT), None)
    if exact is not None and kind.channels <= FEW_CHANNELS:
        found = [
            t if t.name == EXACT else replace(t, us=max(t.us or 0.0, 1.1 * (exact or 0.0))) for t in found
        ]
    return sorted(found, key=lambda t: t.us or 0.0)


def _tunables(kind: Kind, tile: Tile, limits: Limits) -> Iterator[Tunable]:
    width, chunk, size = _width(kind, limits), tile.depth.chunk, tile.depth.size

    def fits(pixels: int = tile.pixels, wide: int = tile.wide, deep: int = tile.deep) -> bool:
        return limits.tile(pixels, wide, deep, side_by_side(kind))

    others = [w for w in WIDTHS if w != width and w >= max(width // 2, limits.channels) and w < 2 * width]
    yield tunable("CHANNELS", width, *others[:3])
    sizes = [p for p in (tile.pixels // 2, tile.pixels * 2) if 64 <= p <= 256 and fits(pixels=p)]
    yield tunable("PIXELS", tile.pixels, *sizes)
    yield tunable("WIDE", tile.wide, *(w for w in (tile.wide * 2, tile.wide // 2) if w >= 8 and fits(wide=w)))
    yield tunable(
        "DEEP", tile.deep, *(d for d in ((1, 2, 4) if len(kind.kernel) > 2 else ()) if fits(deep=d))
    )
    yield tunable("CHUNK", chunk, *(c for c in (4, 8, 16) if c < 2 * kind.channels))
    tall = _fragments(kind, tile.pixels, width)
    yield tunable("FRAGMENTS", tall, *(f for f in (2, 4, 1) if f != tall and 16 * f < tile.pixels))
    yield tunable("STAGES", STAGES, 2, 4)
    yield tunable("SLICE", size, 2, 4, 8)


def _width(kind: Kind, limits: Limits) -> int:
    """Output channels of a block: few idle ones, wide ones rather than narrow ones, not too many sums a thread."""
    most = 64 if side_by_side(kind) > 1 and limits.channels <= 64 else 128
    widths = [w for w in WIDTHS if limits.channels <= w <= most]
    return min(widths, key=lambda w: up(kind.made, w) * (1 / w + 1 / 20), default=WIDTHS[0])


def _depths(kind: Kind, width: int) -> Iterator[Depth]:
    """Each number of channels with the slices that promise most: few barriers, few steps in slices that are not full, which
    run one after the other."""
    for chunk in (8, 16, 4):
        chunks, steps = -(-kind.channels // chunk), [-(-taps * chunk // 8) for taps in taps_of(kind)]
        found = []
        for size in (s for s in (4, 3, 5, 6, 7, 8, 2) if s * width <= MOST_SLICE):
            waits = chunks * sum(-(-n // size) + 0.5 * (n % size) for n in steps)
            found.append(Depth(chunk, size, 8 * chunks * sum(steps), waits))
        yield min(found, key=lambda d: d.waits)


def _fragments(kind: Kind, pixels: int, width: int) -> int:
    """Of 16 pixels, a warp's: the more, the fewer words from shared memory a product needs. At least four warps, and not
    more sums than half of a thread's registers."""
    sums = width * side_by_side(kind)
    warps = 2 if sums > 64 and width % 16 == 0 else 1
    return max((f for f in (1, 2, 4) if pixels * warps >= 64 * f and f * sums // warps <= 256), default=1)


@cache
def tile_of(kind: Kind, shape: tuple[int, ...], limits: Limits = NO_LIMITS) -> Tile | None:
    """The tile that promises most at the main shapes, `shape` the output's; None where no patch fits the shared memory."""
    width, inner = _width(kind, limits), side_by_side(kind)
    if width < limits.channels:
        return None
    phases = kind.stride if kind.transposed else (1,) * len(kind.stride)
    grid = [-(-n // s) for n, s in zip(shape[2:], phases, strict=True)]
    outer = prod(phases) // inner
    blocks = shape[0] * kind.groups * -(-kind.made // width) * outer
    found: list[Tile] = []
    for (pixels, wide, deep), depth in product(_tiles(len(grid)), list(_depths(kind, width))):
        if not limits.tile(pixels, wide, deep, inner):
            continue
        sides = (deep, pixels // wide // deep, wide)[3 - len(grid) :]
        patch = prod(reach(kind, i, side) for i, side in enumerate(sides))
        rings = 2 * depth.chunk * (patch + 32) + STAGES * depth.size * 8 * width + patch
        shared = 4 * max(rings, width * (pixels * inner + 20))
        if shared > SHARED_KIB[2] << 10 or pixels * width * inner > MOST_SUMS:
            continue
        tiles = prod(-(-n // t) for n, t in zip(grid, sides, strict=True))
        # In 32nds of a clock: fragments and products; copies of the weights, of the patch; barriers.
        one = depth.terms * (pixels * (1 + width / 20) + 2 * width) + 2000 * depth.waits
        one += 4 * outer * patch * up(kind.channels, depth.chunk)
        idle = max(1.0, 2 * MULTIPROCESSORS / (tiles * blocks)) * (1.3 if shared > ONE_BLOCK else 1.0)
        use = prod(grid) / (tiles * pixels) * prod(kind.kernel) * kind.channels / depth.terms
        found.append(Tile(pixels, wide, deep, depth, use, tiles * one * idle))
    return min(found, key=lambda t: t.cost, default=None)


def _tiles(space: int) -> Iterator[tuple[int, int, int]]:
    """Pixels, those of a row, planes."""
    for pixels in (128, 256, 64):
        for wide in (32, 16, 64, 8, 128, 256):
            if wide > pixels or (space == 1 and wide != pixels):
                continue
            for deep in (1, 2, 4) if space > 2 else (1,):
                if wide * deep <= pixels:
                    yield pixels, wide, deep


def _us(graph: Graph, region: Region, node: Node, kind: Kind, tile: Tile, limits: Limits) -> float:
    moved = sum(graph.specs[v].nbytes for v in (*region.inputs, *region.outputs))
    width = _width(kind, limits)
    use = tile.use * kind.made / up(kind.made, width)
    narrow = min(1.0, 0.3 + width / 90.0)  # fragments of the image serve few channels
    return max(moved / BANDWIDTH, node.flops / (RATE * use * narrow)) + START_US
