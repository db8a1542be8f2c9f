"""Maximum and average pooling over one to three dimensions on a GPU, with fused pointwise neighbours.

Covers what the C++ family covers: images with channels last or not, adaptive windows, positions of maxima.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from ....codegen.cuda.cuda_source import Launch
from ....codegen.writer import Writer
from ....facts import Facts
from ....hardware import Hardware
from ....records import Graph, Node, Region, Tunable
from ...anchored import Anchor, Core, extents
from ...cuda_anchored import CudaAnchored
from ...cuda_unit import in_load, power, stream
from ...family import Technique, tunable
from ..pool_pattern import PoolingPattern, channels_last
from ..pool_windows import Pool, Window, read_pool
from .pool_register_tiled import emit_pool_register_tiled_kernels
from .pool_separable_3d import emit_pool_separable_3d_kernels
from .pool_thread_groups import emit_pool_thread_group_kernels

LARGE = 32  # elements of a window from which on threads may share it
LONG = 64  # elements across that a thread keeps
ROWS, BLOCKS = 16, 8  # of the result in a block; a multiprocessor, that go through planes
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
        common = (tunable("BLOCK", 128, 256, 512), stream(graph, region, facts.hardware))
        width = in_load(anchor.node.output.spec.dtype)
        vec = tunable("VEC", width, *(v for v in (width // 2, 1)))
        if channels_last(graph, anchor.node, pool):
            why = "packs of channels; all loads of a small window under way at once"
            return [Technique("pixels", why, "memory", (tunable("GROUP", 1), vec, *common))]
        taps = self._taps(graph, anchor.node, pool)
        why = "neighbouring threads share a window and walk its taps"
        shared = Technique("window-per-thread-group", why, "memory", (self._group(pool, taps), *common))
        across = max((w.kernel - 1) * w.dilation + 1 for w in pool.windows)
        if pool.indices or any(w.adaptive for w in pool.windows) or across > LONG:
            return [shared]
        span = self._span(pool.windows[-1])
        why = "a box of outputs a thread, which reads each row of the image in packs and combines it once for all of them"
        boxes = Technique("register-tiled", why, "memory", (*self._box(pool), span, vec, *common), gain=1.2)
        techniques = [boxes, *([shared] if disjoint and taps >= LARGE else [])]
        if not _marches(pool):
            return techniques
        why = "a block goes through the planes of a volume: rows, then planes in registers, then columns are combined"
        # Neighbouring windows that are dilated have few rows in common: a box of outputs shares little.
        dilated = any(w.dilation > 1 for w in pool.windows[:2])
        tunables = (
            self._deep(anchor.node, facts.hardware),
            tunable("BLOCK", 512, 256, 384),
            tunable("VEC", 4, 2, 1),
            common[1],
        )
        planes = Technique("separable-3d", why, "memory", tunables, gain=1.4 if dilated else 1.1)
        return [planes, *techniques] if dilated else [*techniques, planes]

    @staticmethod
    def _span(window: Window) -> Tunable:
        """Packs of outputs a thread, across: for two the image's packs are read less often, most of all if windows are long."""
        if window.stride >= window.kernel:
            return tunable("PACKS_PER_THREAD", 1)
        return tunable("PACKS_PER_THREAD", 2, 1) if window.dilation > 1 else tunable("PACKS_PER_THREAD", 1, 2)

    @staticmethod
    def _taps(graph: Graph, node: Node, pool: Pool) -> float:
        """Return the taps of a window, on average."""
        count = len(pool.windows)
        sizes = zip(graph.specs[node.uses[0]].shape[-count:], node.output.spec.shape[-count:], strict=True)
        return prod(
            i / max(1, o) if w.adaptive else w.kernel for w, (i, o) in zip(pool.windows, sizes, strict=True)
        )

    @staticmethod
    def _group(pool: Pool, taps: float) -> Tunable:
        if pool.indices:
            return tunable("GROUP", 1)
        group = min(32, power(taps / 8))
        return tunable("GROUP", group, *(g for g in (group // 2, 2 * group, group // 4) if 1 <= g <= 32))

    @staticmethod
    def _box(pool: Pool) -> tuple[Tunable, ...]:
        """Outputs of a thread below and behind each other: several where windows share rows, planes."""
        high, deep = (_sharing(pool, d) for d in (1, 2))
        if high > 1 and pool.windows[-2].dilation == 1:
            rows = (
                tunable("ROWS_PER_THREAD", 4, 2, 8, 1) if high >= 2 else tunable("ROWS_PER_THREAD", 2, 1, 4)
            )
        else:
            rows = tunable("ROWS_PER_THREAD", 1, 2, 4)
        return rows, tunable("PLANES_PER_THREAD", 1, 2) if deep > 1 else tunable("PLANES_PER_THREAD", 1)

    @staticmethod
    def _deep(node: Node, hardware: Hardware) -> Tunable:
        """Planes of the result that a block makes: as many as leave enough blocks."""
        *lead, depth, height, _ = node.output.spec.shape
        blocks = prod(lead) * -(-height // ROWS)
        deep = 64
        while deep > 8 and blocks * -(-depth // deep) < BLOCKS * hardware.sm_count_rounded:
            deep //= 2
        return tunable("PLANES_PER_BLOCK", deep, *(d for d in (deep // 2, 2 * deep) if d <= 64))

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
