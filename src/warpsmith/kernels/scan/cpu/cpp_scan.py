"""Running sums, products and extrema along any dimension: forwards, backwards (a flip before and after) and
exclusive (a column of zeros put in front), with the pointwise work before and after in the same pass.

In: a graph and an `aten.cumsum`, `cumprod`, `cummax` or `cummin` node. Out: its region and a unit. What is carried
along a row is double, as in ATen; only `rows-float` adds up to eight vectors in float32 before it joins them to it.
"""

from __future__ import annotations

from math import prod

from ....codegen.lowering.axis_relations import base_name
from ....codegen.templates import render
from ....codegen.writer import Writer
from ....facts import Facts
from ....records import Graph, Region
from ...anchored import Anchor
from ...cpp_anchored import CppAnchored
from ...family import Technique, grain_tunable, stream_tunable, tunable, vector_tunable
from ..scan_pattern import OPERATIONS, ScanPattern, axis_of
from .scan_helpers import helpers

KERNELS = {
    "rows": "scan/cpu/rows.h",
    "rows-float": "scan/cpu/rows.h",
    "split-row": "scan/cpu/split_rows.h",
    "columns": "scan/cpu/columns.h",
}


class CppScan(ScanPattern, CppAnchored):
    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        anchor = self.anchor(graph, region)
        if anchor is None:
            return []
        shape = graph.specs[anchor.value].shape
        common = (vector_tunable(facts), grain_tunable(), stream_tunable(graph, region, facts))
        if axis_of(anchor.node, len(shape)) != len(shape) - 1:
            why = "scans neighbouring columns side by side, one in each lane, down the dimension"
            return [Technique("columns", why, "memory", (*common, tunable("BLOCK", 256, 64, 1024)))]
        exact = base_name(anchor.node) in ("cummax", "cummin")
        chunk, rows = tunable("CHUNK", 1024, 256, 4096), prod(shape[:-1])
        why = "each row in one pass: prefixes of a vector in registers, carried on in double"
        techniques = [Technique("rows-float" if exact else "rows", why, "memory", (*common, chunk))]
        if base_name(anchor.node) == "cumsum":
            why += " every eight vectors"
            techniques.append(Technique("rows-float", why, "memory", (*common, chunk), gain=1.1))
        if rows < 2 * facts.threads and base_name(anchor.node) != "cumprod":
            why = "few long rows: threads total their parts of a stretch that fits the caches, then scan them"
            loops = (chunk, tunable("PART", 65536, 16384, 262144))
            gain = 2.0 if rows < facts.threads else 0.8
            techniques.append(Technique("split-row", why, "memory", (*common, *loops), gain=gain))
        return sorted(techniques, key=lambda t: -t.gain)

    def helpers(self, anchor: Anchor, technique: Technique) -> str:
        rank = len(anchor.graph.specs[anchor.value].shape)
        how = self.form_of(anchor.graph, anchor.node, anchor.region.nodes)
        kind = OPERATIONS[base_name(anchor.node)]
        lanes, short = technique.name == "columns", technique.name in ("rows-float", "split-row")
        return helpers(kind, rank, axis_of(anchor.node, rank), how.reverse, how.exclusive, lanes, short)

    def body(self, w: Writer, anchor: Anchor, technique: Technique) -> str:
        w.paste(render(KERNELS[technique.name]))
        return ""
