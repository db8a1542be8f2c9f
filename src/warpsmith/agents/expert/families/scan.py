"""Running sums, products and extrema along any dimension: forwards, backwards (a flip before and after) and
exclusive (a column of zeros put in front), with the pointwise work before and after in the same pass.

In: a graph and an `aten.cumsum`, `cumprod`, `cummax` or `cummin` node. Out: its region and a unit. What is carried
along a row is double, as in ATen; only `rows-float` adds up to eight vectors in float32 before it joins them to it.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from ....kernels.templates import render
from ....records import Graph, Node, Region
from ...facts import Facts
from ..axes import base_name
from ..emit.scan import helpers
from ..emit.text import Writer
from ..ops import FLOATS, option
from .anchored import Anchor, AnchoredFamily, Core
from .base import Technique, grain_tunable, stream_tunable, tunable, vector_tunable
from .scan_forms import Form, form

OPERATIONS = {"cumsum": "sum", "cumprod": "product", "cummax": "maximum", "cummin": "minimum"}
KERNELS = {
    "rows": "scan/cpu/rows.h",
    "rows-float": "scan/cpu/rows.h",
    "split": "scan/cpu/split_rows.h",
    "columns": "scan/cpu/columns.h",
}
FEW_COLUMNS = 4  # below this the lanes of a scan over an outer dimension stay empty


class Scan(AnchoredFamily):
    name = "scan"

    def covers(self, graph: Graph, node: Node) -> bool:
        return base_name(node) in OPERATIONS

    def supports(self, graph: Graph, node: Node) -> bool:
        made, source = node.output.spec, graph.specs[node.uses[0]]
        if made.dtype not in FLOATS or source.dtype not in (*FLOATS, "bool") or not made.shape:
            return False
        if len(node.outputs) > 1 and node.outputs[1] is not None and _needed(graph, node.outputs[1].name):
            return False  # the indices of an extremum
        return axis_of(node, len(made.shape)) == len(made.shape) - 1 or made.shape[-1] >= FEW_COLUMNS

    def core(self, graph: Graph, node: Node, within: Collection[str]) -> Core:
        return self._form(graph, node, within).core

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
        chunk, few = tunable("CHUNK", 1024, 256, 4096), prod(shape[:-1])
        why = "each row in one pass: prefixes of a vector in registers, carried on in double"
        found = [Technique("rows-float" if exact else "rows", why, "memory", (*common, chunk))]
        if base_name(anchor.node) == "cumsum":
            why += " every eight vectors"
            found.append(Technique("rows-float", why, "memory", (*common, chunk), gain=1.1))
        if few < 2 * facts.threads and base_name(anchor.node) != "cumprod":
            why = "few long rows: threads total their parts of a stretch that fits the caches, then scan them"
            loops = (chunk, tunable("PART", 65536, 16384, 262144))
            gain = 2.0 if few < facts.threads else 0.8
            found.append(Technique("split", why, "memory", (*common, *loops), gain=gain))
        return sorted(found, key=lambda t: -t.gain)

    def helpers(self, anchor: Anchor, technique: Technique) -> str:
        rank = len(anchor.graph.specs[anchor.value].shape)
        how = self._form(anchor.graph, anchor.node, anchor.region.nodes)
        kind = OPERATIONS[base_name(anchor.node)]
        lanes, short = technique.name == "columns", technique.name in ("rows-float", "split")
        return helpers(kind, rank, axis_of(anchor.node, rank), how.reverse, how.exclusive, lanes, short)

    def body(self, w: Writer, anchor: Anchor, technique: Technique) -> str:
        w.paste(render(KERNELS[technique.name]))
        return ""

    def _form(self, graph: Graph, node: Node, within: Collection[str]) -> Form:
        return form(graph, node, axis_of(node, len(node.output.spec.shape)), within)


def axis_of(node: Node, rank: int) -> int:
    return int(option(node, 1, "dim", -1)) % rank


def _needed(graph: Graph, value: str) -> bool:
    return bool(graph.users[value]) or value in graph.returned
