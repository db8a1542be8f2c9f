"""Running sums, products and extrema on a GPU, in the forms that the C++ family knows (backwards, exclusive)."""

from __future__ import annotations

from dataclasses import replace

from ....codegen.cuda.cuda_source import Launch
from ....codegen.lowering.axis_relations import base_name
from ....codegen.writer import Writer
from ....facts import Facts
from ....records import Graph, Region
from ...anchored import Anchor
from ...cuda_anchored import CudaAnchored
from ...cuda_unit import in_load, is_streamed
from ...family import Technique
from ..scan_forms import form
from ..scan_pattern import OPERATIONS, ScanPattern, axis_of
from ..schedules.scan_schedule import ScanColumnsSchedule, ScanRowsSchedule, choose_row_block, choose_split
from .scan_kernels import scan_kernels


class CudaScan(ScanPattern, CudaAnchored):
    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        anchor = self.anchor(graph, region)
        if anchor is None:
            return []
        shape = graph.specs[anchor.value].shape
        wide = in_load(graph.specs[anchor.value].dtype)
        streamed = is_streamed(graph, region, facts.hardware)
        common = {"vec": wide, "nt": int(streamed)}
        others = {"vec": (2 * wide, wide // 2), "nt": (int(not streamed),)}
        if axis_of(anchor.node, len(shape)) != len(shape) - 1:
            why = "a thread goes down neighbouring columns, several rows under way"
            tunables = ScanColumnsSchedule(**common).tunables(unroll=(4, 16), block=(64, 256), **others)
            return [Technique("columns", why, "memory", tunables)]
        block = choose_row_block(shape[-1])
        others["block"] = tuple(b for b in (block // 2, 2 * block) if 32 <= b <= 1024)
        schedule = ScanRowsSchedule(block, **common)
        why = "a block a row, tile by tile: packs in registers, warps by shuffles, the next tile under way"
        techniques = [Technique("rows", why, "memory", schedule.tunables(**others))]
        parts = choose_split(facts.hardware, shape, block)
        if parts > 1:
            why = "few long rows: blocks total their parts of a row, then scan them"
            others["split"] = tuple(p for p in (parts // 2, 2 * parts) if p > 1)
            tunables = replace(schedule, split=parts).tunables(**others)
            techniques.insert(0, Technique("split-row", why, "memory", tunables, gain=2.0))
        return techniques

    def kernels(self, top: Writer, anchor: Anchor, technique: Technique) -> tuple[list[Launch], str, str]:
        graph, node = anchor.graph, anchor.node
        rank = len(graph.specs[anchor.value].shape)
        axis = axis_of(node, rank)
        how = form(graph, node, axis, anchor.region.nodes)
        return scan_kernels(top, OPERATIONS[base_name(node)], rank, axis, how.reverse, how.exclusive)
