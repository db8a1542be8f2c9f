"""Running sums, products and extrema on a GPU, in the forms that the C++ family knows (backwards, exclusive)."""

from __future__ import annotations

from math import prod

from ....codegen.cuda.cuda_source import Launch
from ....codegen.lowering.axis_relations import base_name
from ....codegen.writer import Writer
from ....facts import Facts
from ....records import Graph, Region
from ...anchored import Anchor
from ...cuda_anchored import CudaAnchored
from ...cuda_unit import in_load, power, stream
from ...family import Technique, tunable
from ..scan_forms import form
from ..scan_pattern import OPERATIONS, ScanPattern, axis_of
from .scan_kernels import scan_kernels


class CudaScan(ScanPattern, CudaAnchored):
    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        anchor = self.anchor(graph, region)
        if anchor is None:
            return []
        shape = graph.specs[anchor.value].shape
        wide = in_load(graph.specs[anchor.value].dtype)
        common = (tunable("VEC", wide, 2 * wide, wide // 2), stream(graph, region, facts.hardware))
        if axis_of(anchor.node, len(shape)) != len(shape) - 1:
            why = "a thread goes down neighbouring columns, several rows under way"
            tunables = (tunable("UNROLL", 8, 4, 16), tunable("BLOCK", 128, 64, 256), *common)
            return [Technique("columns", why, "memory", tunables)]
        rows, n = prod(shape[:-1]), shape[-1]
        block = min(256, max(64, power(n / 16)))  # several a multiprocessor: some scan while others wait
        sizes = (tunable("BLOCK", block, *(b for b in (block // 2, 2 * block) if 32 <= b <= 1024)), *common)
        why = "a block a row, tile by tile: packs in registers, warps by shuffles, the next tile under way"
        techniques = [Technique("rows", why, "memory", (*sizes, tunable("SPLIT", 1)))]
        parts = min(power(4 * facts.hardware.sm_count_rounded / max(1, rows)), n // (block * 4))
        if parts > 1:
            why = "few long rows: blocks total their parts of a row, then scan them"
            split = tunable("SPLIT", parts, *(p for p in (parts // 2, 2 * parts) if p > 1))
            techniques.insert(0, Technique("split-row", why, "memory", (*sizes, split), gain=2.0))
        return techniques

    def kernels(self, top: Writer, anchor: Anchor, technique: Technique) -> tuple[list[Launch], str, str]:
        graph, node = anchor.graph, anchor.node
        rank = len(graph.specs[anchor.value].shape)
        axis = axis_of(node, rank)
        how = form(graph, node, axis, anchor.region.nodes)
        return scan_kernels(top, OPERATIONS[base_name(node)], rank, axis, how.reverse, how.exclusive)
