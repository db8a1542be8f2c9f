"""Maximum and average pooling over one to three dimensions on a GPU, with fused pointwise neighbours.

Covers what the C++ family covers: images with channels last or not, adaptive windows, positions of maxima.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from ....codegen.cuda.cuda_source import Launch
from ....codegen.writer import Writer
from ....facts import Facts
from ....records import Graph, Node, Region
from ...anchored import Anchor, Core, extents
from ...cuda_anchored import CudaAnchored
from ...cuda_unit import in_load, is_streamed, power
from ...family import Technique
from ..pool_pattern import PoolingPattern, channels_last
from ..pool_windows import Pool, read_pool
from ..schedules.pool_schedule import (
    MOST_PLANES,
    PoolRegisterTiledSchedule,
    PoolSeparable3dSchedule,
    PoolThreadGroupSchedule,
    choose_planes,
)
from .pool_register_tiled import emit_pool_register_tiled_kernels
from .pool_separable_3d import emit_pool_separable_3d_kernels
from .pool_thread_groups import emit_pool_thread_group_kernels

LARGE = 32  # elements of a window from which on threads may share it
LONG = 64  # elements across that a thread keeps
THICK = 8  # planes that a thread keeps, and rows that it has under way


class CudaPooling(PoolingPattern, CudaAnchored):
    def core(self, graph: Graph, node: Node, within: Collection[str]) -> Core:
        return Core((node.name,), node.output.name, (node.uses[0],))

    def cut(self, graph: Graph, node: Node, excluded: Collection[str], fuse: bool) -> Region | None:
        """Cut the region; what computes the image stays outside where each of its elements would be computed too often."""
        source = graph.producer.get(node.uses[0])
        if source is not None and not self.prologues(graph, node):
            excluded = {*excluded, source.name}
        return super().cut(graph, node, excluded, fuse)

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        anchor = self.anchor(graph, region)
        pool = read_pool(graph, anchor.node) if anchor is not None else None
        if anchor is None or pool is None:
            return []
        disjoint = all(w.kernel <= w.stride for w in pool.windows)
        streamed = is_streamed(graph, region, facts.hardware)
        others = {"block": (256, 512), "nt": (int(not streamed),)}
        width = in_load(anchor.node.output.spec.dtype)
        widths = (width // 2, 1)
        if channels_last(graph, anchor.node, pool):
            why = "packs of channels; all loads of a small window under way at once"
            schedule = PoolThreadGroupSchedule(vec=width, nt=int(streamed))
            return [Technique("pixels", why, "memory", schedule.tunables(vec=widths, **others))]
        taps = self._taps(graph, anchor.node, pool)
        why = "neighbouring threads share a window and walk its taps"
        group, *groups = (1,) if pool.indices else _list_groups(taps)
        shared_tunables = PoolThreadGroupSchedule(group, nt=int(streamed)).tunables(group=groups, **others)
        shared = Technique("window-per-thread-group", why, "memory", shared_tunables)
        across = max((w.kernel - 1) * w.dilation + 1 for w in pool.windows)
        if pool.indices or any(w.adaptive for w in pool.windows) or across > LONG:
            return [shared]
        (rows, *more_rows), (depth, *more_depths), (packs, *more_packs) = _list_tiles(pool)
        tile = PoolRegisterTiledSchedule(rows, depth, packs, width, nt=int(streamed))
        tile_tunables = tile.tunables(
            rows=more_rows, planes=more_depths, packs=more_packs, vec=widths, **others
        )
        why = "a box of outputs a thread, which reads each row of the image in packs and combines it once for all of them"
        boxes = Technique("register-tiled", why, "memory", tile_tunables, gain=1.2)
        techniques = [boxes, *([shared] if disjoint and taps >= LARGE else [])]
        if not _marches(pool):
            return techniques
        why = "a block goes through the planes of a volume: rows, then planes in registers, then columns are combined"
        # Neighbouring windows that are dilated have few rows in common: a box of outputs shares little.
        dilated = any(w.dilation > 1 for w in pool.windows[:2])
        count = choose_planes(facts.hardware, anchor.node.output.spec.shape)
        tunables = PoolSeparable3dSchedule(count, nt=int(streamed)).tunables(
            planes=[n for n in (count // 2, 2 * count) if n <= MOST_PLANES], block=(256, 384), vec=(2, 1),
            nt=others["nt"],
        )  # fmt: skip
        planes = Technique("separable-3d", why, "memory", tunables, gain=1.4 if dilated else 1.1)
        return [planes, *techniques] if dilated else [*techniques, planes]

    @staticmethod
    def _taps(graph: Graph, node: Node, pool: Pool) -> float:
        """Return the taps of a window, on average."""
        count = len(pool.windows)
        sizes = zip(graph.specs[node.uses[0]].shape[-count:], node.output.spec.shape[-count:], strict=True)
        return prod(
            i / max(1, o) if w.adaptive else w.kernel for w, (i, o) in zip(pool.windows, sizes, strict=True)
        )

    def kernels(self, top: Writer, anchor: Anchor, technique: Technique) -> tuple[list[Launch], str, str]:
        pool = read_pool(anchor.graph, anchor.node)
        assert pool is not None  # supports() refuses others
        rank = len(anchor.node.output.spec.shape)
        sizes = extents(anchor, anchor.node.uses[0])
        if technique.name == "register-tiled":
            return emit_pool_register_tiled_kernels(top, pool, rank, sizes)
        if technique.name == "separable-3d":
            return emit_pool_separable_3d_kernels(top, pool, rank, sizes)
        run = rank - len(pool.windows) - 1 if technique.name == "pixels" else -1
        return emit_pool_thread_group_kernels(top, pool, rank, sizes, run, anchor.names.get(pool.indices, ""))


def _list_groups(taps: float) -> tuple[int, ...]:
    """List numbers of threads that may share a window of so many taps, the best first."""
    group = min(32, power(taps / 8))
    return (group, *(g for g in (group // 2, 2 * group, group // 4) if 1 <= g <= 32))


def _list_tiles(pool: Pool) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """List outputs of a thread below, behind and (in packs) beside each other, the best first: several where windows share
    rows or planes; for two packs the image's are read less often, most of all if windows are long."""
    high, deep = (_sharing(pool, d) for d in (1, 2))
    rows: tuple[int, ...] = (1, 2, 4)
    if high > 1 and pool.windows[-2].dilation == 1:
        rows = (4, 2, 8, 1) if high >= 2 else (2, 1, 4)
    window = pool.windows[-1]
    packs: tuple[int, ...] = (2, 1) if window.dilation > 1 else (1, 2)
    return rows, (1, 2) if deep > 1 else (1,), (1,) if window.stride >= window.kernel else packs


def _sharing(pool: Pool, dim: int) -> float:
    """Return how many windows have a row (1) or plane (2) of the image in common."""
    return pool.windows[-dim - 1].kernel / pool.windows[-dim - 1].stride if len(pool.windows) > dim else 0.0


def _marches(pool: Pool) -> bool:
    """Windows over volumes that share planes, few enough to be kept."""
    if len(pool.windows) != 3:
        return False
    deep, high, wide = pool.windows
    spread = [(w.kernel - 1) * w.dilation + 1 for w in (deep, wide)]
    return deep.stride < spread[0] <= THICK and deep.stride * high.kernel <= THICK and spread[1] <= 2 * THICK
