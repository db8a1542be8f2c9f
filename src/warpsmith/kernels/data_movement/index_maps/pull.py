"""A region as an expression of one output element: what it loads, computes and chooses among.

In: a graph and a region with one output. Out: a `Mapping`: loops over the output's dimensions (split where a
reshape needs their digits), steps, loads at indices that are affine in the loop variables, and choices between steps
by a range that an index lies in (concatenation, padding …). Raises Unsupported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ....codegen.lowering.axis_relations import BATCH_NORM_INFERENCE, VIEWS, base_name
from ....codegen.lowering.op_builder import (
    STORED,
    convert,
    kind_of,
    literal,
    number,
    whole,
    whole_number,
)
from ....codegen.lowering.result_types import before_rounding, find_stepped, lowering_of, round_half
from ....codegen.program import Expr, Kind, Operand, Unsupported
from ....records import Graph, Node, Region, TensorSpec
from .digits import Split, digits
from .index_symbols import Index, Sym, align_index, product
from .map_sizes import Sizes

MAX_STEPS = 160


@dataclass(frozen=True)
class Load:
    """An element of an input. `wrap`: of a table of indices, the size that is added to negative entries."""

    name: str
    operand: str  # in0 …
    spec: TensorSpec
    index: tuple[Index, ...]  # one for each dimension
    wrap: Sym | None = None

    @property
    def tables(self) -> dict[str, list[tuple[int, Sym]]]:
        """Table → (dimension, coefficient)."""
        tables_by_name: dict[str, list[tuple[int, Sym]]] = {}
        for d, index in enumerate(self.index):
            for table, coefficient in index.looked_up:
                tables_by_name.setdefault(table, []).append((d, coefficient))
        return tables_by_name


@dataclass(frozen=True)
class Choice:
    """cases[i] where bounds[i - 1] <= index < bounds[i]."""

    name: str
    index: Index
    bounds: tuple[Sym, ...]
    cases: tuple[str, ...]

    @property
    def key(self) -> tuple[Index, tuple[Sym, ...]]:
        """Choices with one key are made at once."""
        return self.index, self.bounds


# Name of an ATen op that moves data → function (mapping, node, value, index) → step.
Moves = dict[str, Callable[["Mapping", Node, str, tuple[Index, ...]], str]]


@dataclass
class Mapping:
    """See the module's text. `extents`: of the loop variables; `dims`: those of each output dimension, outer first."""

    graph: Graph
    region: Region
    sizes: Sizes
    moves: Moves
    extents: list[Sym]
    dims: list[list[int]]
    steps: dict[str, Expr] = field(default_factory=dict)
    loads: dict[str, Load] = field(default_factory=dict)
    tables: dict[str, Load] = field(default_factory=dict)
    choices: dict[str, Choice] = field(default_factory=dict)
    requires: list[str] = field(default_factory=list)
    root: str = ""
    _memo: dict[tuple[Any, ...], str] = field(default_factory=dict)

    @cached_property
    def stepped(self) -> frozenset[str]:
        return find_stepped(self.graph, (self.graph.by_name[n] for n in self.region.nodes))

    @property
    def output(self) -> str:
        return self.region.outputs[0]

    @property
    def whole(self) -> tuple[Index, ...]:
        """Every output dimension as the loops run over it."""
        return tuple(
            Index(
                tuple(
                    (v, product([self.extents[w] for w in variables[i + 1 :]]))
                    for i, v in enumerate(variables)
                )
            )
            for variables in self.dims
        )

    def pull(self, value: str, index: Sequence[Index]) -> str:
        """The step that holds the element of `value` at `index`."""
        key = (value, tuple(index))
        if key not in self._memo:
            self._memo[key] = self._pull(value, tuple(index))
            if len(self.steps) > MAX_STEPS:
                raise Unsupported("too many different index maps")
        return self._memo[key]

    def size(self, value: str) -> list[Sym]:
        return self.sizes.of(value)

    def choose(self, index: Index, bounds: Sequence[Sym], cases: Sequence[str]) -> str:
        if index.looked_up:
            raise Unsupported("a choice by an index from a table")
        if len(set(cases)) == 1:
            return cases[0]
        kinds = {self.steps[c].kind for c in cases}
        if kinds == {"i", "l"}:
            cases = [self._widen(c) for c in cases]
            kinds = {"l"}
        if len(kinds) != 1:
            raise Unsupported("masks and numbers in one tensor")
        name = self._name("chosen")
        self.choices[name] = Choice(name, index, tuple(bounds), tuple(cases))
        self.steps[name] = Expr(name, "", tuple(cases), kinds.pop(), True, 0)
        return name

    def constant(self, value: float, kind: Kind = "f") -> str:
        if kind in ("l", "i"):
            return self.add(whole(int(value)), (), "l", 0, "c")
        plain = self.add(literal(value), (), "f", 0, "c")
        return plain if kind == "f" else self.add("ws::abs({0}) != 0.0f", (plain,), "m", 1, "c")

    def add(self, text: str, args: tuple[str, ...], kind: Kind, cost: int, hint: str) -> str:
        key = (text, args, kind)
        if key not in self._memo:
            name = self._name(hint)
            self.steps[name] = Expr(name, text, args, kind, True, 0, cost=cost)
            self._memo[key] = name
        return self._memo[key]

    def table(self, value: str, index: Sequence[Index], wrap: Sym | None) -> str:
        """A table of indices, to be used in `Index.looked_up`."""
        if value not in self.region.inputs:
            raise Unsupported("indices that are computed in the region")
        if self.graph.specs[value].dtype not in ("int64", "int32"):
            raise Unsupported(f"{value} is {self.graph.specs[value].dtype}")
        key = ("table", value, tuple(index), wrap)
        if key not in self._memo:
            operand = f"in{self.region.inputs.index(value)}"
            name = self._name(f"{operand}_index")
            if any(i.looked_up for i in index):
                raise Unsupported("a table found by a table")
            self.tables[name] = Load(name, operand, self.graph.specs[value], tuple(index), wrap)
            self._memo[key] = name
        return self._memo[key]

    def digits(self, index: Index, sizes: Sequence[Sym]) -> list[Index]:
        """The digits of an index in the mixed radix `sizes`, outermost first. Raises Split."""
        digit_indices, requires = digits(index, sizes, self.extents)
        self.requires += requires
        return digit_indices

    # ---- internals

    def _pull(self, value: str, index: tuple[Index, ...]) -> str:
        if value in self.region.inputs:
            return self._load(value, index)
        node = self.graph.producer[value]
        move = self.moves.get(base_name(node))
        if base_name(node) in VIEWS and self.graph.specs[node.uses[0]].dtype != node.output.spec.dtype:
            raise Unsupported(f"{node.name} takes bits for another type")
        if move is not None:
            return move(self, node, value, index)
        if base_name(node) == BATCH_NORM_INFERENCE:
            raise Unsupported("batch norm: its statistics do not broadcast, they go along dimension 1")
        point = _Point(self, node, index)
        step = lowering_of(node)(point, node)
        return round_half(point, node, step, node.output.spec.dtype) if value in self.stepped else step

    def _widen(self, step: str) -> str:
        return self.add("ws::to_long({0})", (step,), "l", 1, "wide") if self.steps[step].kind == "i" else step

    def _load(self, value: str, index: tuple[Index, ...]) -> str:
        spec = self.graph.specs[value]
        if spec.dtype not in STORED:
            raise Unsupported(f"{value} is {spec.dtype}")
        operand = f"in{self.region.inputs.index(value)}"
        name = self._name(operand)
        self.loads[name] = Load(name, operand, spec, index)
        self.requires += [
            f"{operand}_shape[{d}] == 1"
            for d, dim_index in enumerate(index)
            if spec.shape[d] == 1 and dim_index == Index()
        ]
        held = Operand(name, value, spec.dtype, (), spec.shape, spec.stride)
        self.steps[name] = Expr(name, "load", (), kind_of(spec.dtype), True, 0, operand=held)
        return name

    def _name(self, hint: str) -> str:
        count = 1 + sum(n.rsplit("_", 1)[0] == hint for n in (*self.steps, *self.tables))
        return f"{hint}_{count}"


class _Point:
    """The Builder of `ops` at one element of a node's output."""

    def __init__(self, mapping: Mapping, node: Node, index: tuple[Index, ...]) -> None:
        self.mapping, self.node, self.index = mapping, node, index

    def arg(self, value: Any, kind: Kind = "f") -> str:
        if not (isinstance(value, dict) and "v" in value):
            if kind == "l":
                return self.integer(whole_number(value))
            return self._as(self.constant(number(value)), kind)
        return self._as(self.mapping.pull(value["v"], self._broadcast(value["v"])), kind)

    def kind(self, value: Any) -> Kind:
        if isinstance(value, dict) and "v" in value:
            return kind_of(self.mapping.graph.specs[value["v"]].dtype)
        return "m" if isinstance(value, bool) else "l" if isinstance(value, int) else "f"

    def dtype(self, value: Any) -> str:
        return self.mapping.graph.specs[value["v"]].dtype

    def emit(self, text: str, *args: str, kind: Kind = "f", cost: int = 1) -> str:
        hint = "".join(c if c.isalnum() and c.isascii() else "_" for c in self.node.output.name)
        return self.mapping.add(text, args, kind, cost, f"v_{hint}")

    def constant(self, value: float) -> str:
        return self.emit(literal(value), cost=0)

    def integer(self, value: int) -> str:
        return self.emit(whole(value), kind="l", cost=0)

    def _as(self, name: str, kind: Kind) -> str:
        return convert(self, name, self.mapping.steps[name].kind, kind)

    def _broadcast(self, value: str) -> tuple[Index, ...]:
        return align_index(self.mapping.graph.specs[value].shape, self.node.output.spec.shape, self.index)


def pull_mapping(graph: Graph, region: Region, moves: Moves) -> Mapping:
    """The mapping of a region. Raises Unsupported."""
    if len(region.outputs) != 1:
        raise Unsupported("more than one output")
    value = region.outputs[0]
    spec = graph.specs[value]
    if spec.dtype not in STORED or not spec.shape or spec.numel == 0:
        raise Unsupported(f"an output of {spec.dtype} {list(spec.shape)}")
    parts = [[size] for size in Sizes(graph, region).of(value)]
    for _ in range(8):
        mapping = _space(graph, region, moves, parts)
        try:
            root = mapping.pull(value, mapping.whole)
            mapping.root = before_rounding(mapping.steps, root, spec.dtype)
        except Split as split:
            _split(mapping, parts, split)
            continue
        mapping.requires = list(dict.fromkeys([*mapping.sizes.requirements(), *mapping.requires]))
        return mapping
    raise Unsupported("too many reshapes")


def _space(graph: Graph, region: Region, moves: Moves, parts: list[list[Sym]]) -> Mapping:
    extents = [extent for sizes in parts for extent in sizes]
    numbers = iter(range(len(extents)))
    dims = [[next(numbers) for _ in part] for part in parts]
    mapping = Mapping(graph, region, Sizes(graph, region), moves, extents, dims)
    for size, part in zip(mapping.size(region.outputs[0]), parts, strict=True):
        if len(part) > 1 and product(part).text != size.text:
            mapping.requires.append(f"{product(part).text} == {size.text}")
    return mapping


def _split(mapping: Mapping, parts: list[list[Sym]], split: Split) -> None:
    dim = next(d for d, variables in enumerate(mapping.dims) if split.variable in variables)
    position = mapping.dims[dim].index(split.variable)
    outer = mapping.extents[split.variable] // split.inner
    parts[dim][position : position + 1] = [outer, split.inner]
