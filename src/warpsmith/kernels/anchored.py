"""Families around an operation with loops of its own (a scan, a pooling, a matrix product …), the *anchor*: each
cuts its own regions, the anchor with the pointwise nodes before and after it.

What matches an operator subclasses `AnchoredFamily`, in a module `…_pattern` that knows no target; the kernels of a target
subclass that and `cpp_anchored.CppAnchored` or `cuda_anchored.CudaAnchored`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ..codegen.fusion.op_chain import Chain, epilogue, prologue
from ..codegen.fusion.pointwise_growth import grow_after, grow_before
from ..codegen.program import Operand, Unsupported, operand_names
from ..errors import TaskError
from ..facts import Facts
from ..records import Graph, Node, Region, Unit
from ..tasks.regions import make_region
from .family import Technique


@dataclass(frozen=True)
class Core:
    """The anchor and the nodes that its loops do along with it (a flip before a scan, say)."""

    nodes: tuple[str, ...]
    value: str  # what they make and the epilogue takes
    reads: tuple[str, ...]  # values that the body reads through prologues only, in order
    second: str = ""  # another value that they make and the epilogue takes, too


@dataclass(frozen=True)
class Anchor:
    """An anchor in its region. `value`: what it makes and the epilogue takes; `names`: value → in0, out0 …"""

    graph: Graph
    region: Region
    node: Node
    after: tuple[str, ...]
    before: dict[str, tuple[str, ...]]  # value read through a prologue → its nodes
    names: dict[str, str]
    core: Core | None = None  # None: the node alone

    @property
    def value(self) -> str:
        return self.node.output.name if self.core is None else self.core.value

    @property
    def second(self) -> str:
        return "" if self.core is None else self.core.second


class AnchoredFamily:
    """Base of the families; see the module's text."""

    name = ""
    late = False  # cuts its regions after those of the other families
    fuses_reductions = False  # takes reductions or windows that follow its operation, which others have families of their own for

    def covers(self, graph: Graph, node: Node) -> bool:
        """Tell whether this is the anchor's operation."""
        raise NotImplementedError

    def supports(self, graph: Graph, node: Node) -> bool:
        """Tell whether the operation can be written with these arguments, shapes, dtypes and strides."""
        raise NotImplementedError

    def prologues(self, graph: Graph, node: Node) -> tuple[str, ...]:
        """Values that the body reads through prologues only, in order."""
        return ()

    def core(self, graph: Graph, node: Node, within: Collection[str]) -> Core:
        """The anchor with what its loops do along with it, out of `within`. A core that has other nodes, too, is none
        that can be cut or written there.
        """
        return Core((node.name,), node.output.name, self.prologues(graph, node))

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        raise NotImplementedError

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        """Raises Unsupported."""
        raise NotImplementedError

    def run_axis(self, graph: Graph, node: Node) -> int:
        """The dimension along which prologues and the epilogue take their runs: the last, unless overridden."""
        return -1

    # ---- what the planner and the brain call

    def cut(self, graph: Graph, node: Node, taken: Collection[str], fuse: bool) -> Region | None:
        """The region around an anchor, None where it cannot be written."""
        if not self.supports(graph, node):
            return None
        core = self.core(graph, node, {n.name for n in graph.nodes} - set(taken))
        if not set(core.nodes).isdisjoint(taken):
            return None
        refused = {*taken, *core.nodes}
        after = grow_after(graph, core.value, refused) if fuse else ()
        before = [n for v in core.reads for n in grow_before(graph, v, refused, core.nodes)] if fuse else []
        for names in ([*before, *after], after, before, ()):
            if (region := self._region(graph, [*core.nodes, *names])) is not None:
                return region
        return self._region(graph, [node.name]) if len(core.nodes) > 1 else None

    def anchor(self, graph: Graph, region: Region) -> Anchor | None:
        """The region as an anchor and its chains; None when it is not one of this family."""
        node = next((graph.by_name[n] for n in region.nodes if self.covers(graph, graph.by_name[n])), None)
        if node is None or not self.supports(graph, node):
            return None
        core = self.core(graph, node, region.nodes)
        if not set(core.nodes) <= set(region.nodes):
            return None
        pointwise = [n for n in region.nodes if n not in core.nodes]
        before = {v: makers(graph, v, pointwise) for v in core.reads}
        early = {n for names in before.values() for n in names}
        after = tuple(n for n in pointwise if n not in early)
        return Anchor(graph, region, node, after, before, operand_names(region), core)

    def can_write_chains(self, graph: Graph, region: Region) -> bool:
        """Tell whether what is around the anchor is pointwise: an anchor may be found in a region of much else."""
        try:
            anchor = self.anchor(graph, region)
            if anchor is None:
                return False
            self.chains_before(anchor)
            epilogue(graph, region, anchor.value, anchor.after, anchor.second)
        except (TaskError, Unsupported):
            return False
        return True

    def chains_before(self, anchor: Anchor) -> list[Chain]:
        """The chains of what the body reads, in the order of `Core.reads`. Raises Unsupported."""
        return [prologue(anchor.graph, anchor.region, v, nodes) for v, nodes in anchor.before.items()]

    def _region(self, graph: Graph, names: list[str]) -> Region | None:
        """The region of these nodes when its chains can be written."""
        try:
            region = make_region(graph, names)
        except TaskError:
            return None
        return region if self.can_write_chains(graph, region) else None


def extents(anchor: Anchor, value: str) -> list[str]:
    """The size of each dimension of a value that the body reads, in terms of task.h, even where it is computed in the
    unit. Raises Unsupported where no operand tells a size.
    """
    dims = range(len(anchor.graph.specs[value].shape))
    if value in anchor.names:
        return [f"{anchor.names[value]}_shape[{d}]" for d in dims]
    operands = prologue(anchor.graph, anchor.region, value, anchor.before[value]).program.inputs
    extents = []
    for d in dims:
        sizes = [(o.shape[i], _extent(o, i)) for o in operands for i, a in enumerate(o.axes) if a == d]
        if not sizes:
            raise Unsupported("a dimension of what is computed that none of its operands has")
        extents.append(max(sizes, key=lambda o: o[0])[1])  # the others may broadcast
    return extents


def _extent(operand: Operand, d: int) -> str:
    """The elements of an operand along its dimension `d`, of which a byte may hold two."""
    size = f"{operand.name}_shape[{d}]"
    return f"2 * {size}" if operand.nibbles is not None and d == len(operand.axes) - 1 else size


def makers(graph: Graph, value: str, among: list[str]) -> tuple[str, ...]:
    """The nodes of `among` that a value is computed from, in graph order."""
    names: set[str] = set()
    todo = [value]
    while todo:
        node = graph.producer.get(todo.pop())
        if node is not None and node.name in among and node.name not in names:
            names.add(node.name)
            todo += node.uses
    return tuple(n for n in among if n in names)
