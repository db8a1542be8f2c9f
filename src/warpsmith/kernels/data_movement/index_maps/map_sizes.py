"""Sizes of a region's values in terms of `task.h`, which has those of inputs and outputs only.

In: a graph and a region. Out: a `Sym` for every dimension of every value in it. Dimensions that must agree are
merged; sums (concatenation, padding) and products (reshapes, repeats) give one unknown size from the others. What
is left is a number of the graph (ends of a slice, parts of a split), which is the same at every variant. A wrong
reading shows as a failed `requires` at another variant, not as a wrong result.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....codegen.lowering.axis_relations import base_name
from ....codegen.lowering.op_builder import option
from ....codegen.program import Unsupported
from ....records import Graph, Node, Region
from .index_symbols import Sym, name_constant, product, sym
from .size_relations import Dim, Equation, relations


class Sizes:
    def __init__(self, graph: Graph, region: Region) -> None:
        self.graph = graph
        self.nodes = [graph.by_name[n] for n in region.nodes]
        self._parent: dict[Dim, Dim] = {}
        self._known: dict[Dim, Sym] = {}
        self.equations: list[Equation] = []
        for node in self.nodes:
            for relation in relations(graph, node):
                if isinstance(relation, Equation):
                    self.equations.append(relation)
                else:
                    self._merge(*relation)
        operands = [(f"out{i}", v) for i, v in enumerate(region.outputs)]
        operands += [(f"in{i}", v) for i, v in enumerate(region.inputs)]
        self._equal: list[str] = []
        for operand, value in operands:
            for d, size in enumerate(graph.specs[value].shape):
                root, text = self._find((value, d)), f"{operand}_shape[{d}]"
                if root in self._known:
                    self._equal.append(f"{text} == {self._known[root].text}")
                else:
                    self._known[root] = name_constant(text, size)
        self._solve([v.name for n in self.nodes for v in n.outputs if v is not None])

    def of(self, value: str) -> list[Sym]:
        return [self._known[self._find((value, d))] for d in range(len(self.graph.specs[value].shape))]

    def requirements(self) -> list[str]:
        """List the conditions that must hold at every variant for the sizes to be what they were taken for."""
        conditions = list(self._equal)
        for e in self.equations:
            lhs = [self._known[self._find(d)] for d in e.left]
            rhs = [self._known[self._find(d)] for d in e.right]
            total = product(lhs) * sym(e.factor)
            if e.const is not None:
                total = e.const
                for part in lhs:
                    total = total + part
            if total.text != product(rhs).text:
                conditions.append(f"{total.text} == {product(rhs).text}")
        return conditions

    def _solve(self, values: Sequence[str]) -> None:
        unknown = [(v, d) for v in values for d in range(len(self.graph.specs[v].shape))]
        while True:
            while any(self._apply(e) for e in self.equations):
                pass
            dim = next((d for d in unknown if self._find(d) not in self._known), None)
            if dim is None:
                return
            self._known[self._find(dim)] = self._guess(dim)

    def _apply(self, e: Equation) -> bool:
        """Solve the equation for a size; tell whether that is new."""
        missing = [d for d in (*e.left, *e.right) if self._find(d) not in self._known]
        if len(missing) != 1:
            return False
        unknown = missing[0]
        sides = [[self._known[self._find(d)] for d in side if d != unknown] for side in (e.left, e.right)]
        if unknown in e.right:
            sides.reverse()
        lhs, rhs = sides
        if e.const is None:
            scale = sym(e.factor)
            size = product(rhs) * scale if unknown in e.right else product(rhs) // scale
            size = size // product(lhs)
        elif unknown in e.right:
            size = e.const
            for part in rhs:
                size = size + part
        else:
            size = rhs[0] - e.const
            for part in lhs:
                size = size - part
        if size.value != self._value(unknown):
            raise Unsupported("sizes that contradict each other")
        self._known[self._find(unknown)] = size
        return True

    def _guess(self, dim: Dim) -> Sym:
        number = self._value(dim)
        node = self.graph.producer[dim[0]]
        source = self._known.get(self._find((node.uses[0], dim[1]))) if node.uses else None
        if base_name(node) == "repeat":
            offset = len(node.args[1]) - len(self.graph.specs[node.uses[0]].shape)
            source = (
                self._known.get(self._find((node.uses[0], dim[1] - offset))) if dim[1] >= offset else sym(1)
            )
            if source is not None:
                return source * sym(node.args[1][dim[1]])
        if source is not None and base_name(node) == "slice":
            return self._measure_slice(node, source)
        return sym(number)

    def _measure_slice(self, node: Node, size: Sym) -> Sym:
        """Length of a slice, as its arguments say it."""
        step = int(option(node, 4, "step", 1))
        start, end = (self.bound(option(node, i, n, None), size) for i, n in ((2, "start"), (3, "end")))
        length = (size if end is None else end) - (start or sym(0))
        if step == 1 or length.value < 1:
            return length
        return name_constant(f"(({length.text} + {step - 1}) / {step})", -(-length.value // step))

    def bound(self, number: int | None, size: Sym) -> Sym | None:
        """An end of a slice within a dimension of `size`; None: the dimension's own end."""
        if number is None or number >= size.value:
            return None
        if number < 0:
            return size - sym(-number) if -number <= size.value else sym(0)
        return sym(number)

    def _value(self, dim: Dim) -> int:
        return self.graph.specs[dim[0]].shape[dim[1]]

    def _find(self, dim: Dim) -> Dim:
        while dim in self._parent:
            dim = self._parent[dim]
        return dim

    def _merge(self, left: Dim, right: Dim) -> None:
        a, b = self._find(left), self._find(right)
        if a != b:
            self._parent[b] = a
