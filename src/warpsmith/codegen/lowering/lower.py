"""A region of the graph → a `Program`.

In: the graph, a region, and whether compound reductions (moments; maximum with sum of exponentials) are to be
kept whole, so that one pass over the data finds both of their parts. Out: the program, or Unsupported when a
node, a dtype or a layout is not one that this generator can write.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ...records import Graph, Node, Region
from ..program import Expr, Kind, Operand, Program, Unsupported
from .axes import Axes
from .axis_relations import VIEWS, base_name
from .levels import find_removed_axes, is_reducing, row_axes
from .loop_groups import loop_groups
from .naming import identifier, verb
from .op_builder import INTEGERS, STORED, convert, kind_of, literal, number, whole, whole_number
from .pick_ops import PICK_OPS
from .reduce_ops import REDUCE_OPS
from .result_types import before_rounding, find_stepped, lowering_of, round_half
from .sized import in_terms_of_size
from .sizes import axis_sizes

_COMBINED = {*(("f", k) for k in ("sum", "max", "min", "prod")), ("l", "sum")}  # what can be, over all rows


class Lowering:
    """The builder that op tables write into: keeps the steps, the loads and what each value of the graph
    became.
    """

    def __init__(self, graph: Graph, region: Region, single_pass: bool) -> None:
        self.graph, self.region, self.single_pass = graph, region, single_pass
        self.nodes = [graph.by_name[n] for n in region.nodes]
        self.axes = Axes(graph, self.nodes)
        self.removed = find_removed_axes(self.axes, self.nodes)
        self.reduced = row_axes(self.axes, self.removed)
        self._removes = self.reduced  # by the node at hand
        self._stepped = find_stepped(graph, self.nodes)
        self.steps: dict[str, Expr] = {}
        self._value: dict[str, str] = {}  # graph value → step
        self._same: dict[tuple[Any, ...], str] = {}
        self._hint = ""
        self._several = False  # the node at hand becomes several steps: each is named after what it does, too

    def program(self) -> Program:
        inputs = tuple(self._operand(f"in{i}", v) for i, v in enumerate(self.region.inputs))
        for operand in inputs:
            self._load(operand)
        for node in self.nodes:
            self._node(node)
        results = tuple(self._output(f"out{i}", v) for i, v in enumerate(self.region.outputs))
        ends = tuple((o, n) for o, n in results if self.steps[n].beyond)
        outputs = tuple(pair for pair in results if pair not in ends)
        operands = (*inputs, *(o for o, _ in outputs))
        groups = loop_groups(operands, self.axes.all, self._span, self.reduced)
        sizes = axis_sizes(operands, self.axes.sizes, self.axes.literals)
        tail = self._tail([n for _, n in ends])
        roots = [*(n for _, n in outputs), *(s.args[0] for s in tail if s.total)]
        program = Program(inputs, outputs, self._live(roots), groups, sizes, tail, ends)
        _check(program)
        return program

    # ---- the Builder interface of ops.py

    def arg(self, value: Any, kind: Kind = "f") -> str:
        """The step for an argument, converted to `kind`."""
        if not (isinstance(value, dict) and "v" in value):
            if kind == "l":
                return self.integer(whole_number(value))
            return self._as(self.constant(number(value)), kind)
        return self._as(self._value[value["v"]], kind)

    def kind(self, value: Any) -> Kind:
        """Return the register type that an argument has before any conversion."""
        if isinstance(value, dict) and "v" in value:
            return self.steps[self._value[value["v"]]].kind
        if isinstance(value, bool):
            return "m"
        return "l" if isinstance(value, int) else "f"

    def dtype(self, value: Any) -> str:
        """Return the type of a value of the graph."""
        return self.graph.specs[value["v"]].dtype

    def emit(self, text: str, *args: str, kind: Kind = "f", cost: int = 1) -> str:
        full = any(self.steps[a].full for a in args) or (bool(args) and not self.reduced)
        stage = max((self.steps[a].stage for a in args), default=0)
        beyond = any(self.steps[a].beyond for a in args)
        if beyond and not all(self.steps[a].beyond or self._uniform(a) for a in args):
            raise Unsupported("what all rows yield, used again within a row")
        return self._add(Expr("", text, args, kind, full, stage, cost=cost, beyond=beyond))

    def constant(self, value: float) -> str:
        return self.emit(literal(value), cost=0)

    def integer(self, value: int) -> str:
        return self.emit(whole(value), kind="l", cost=0)

    @property
    def count(self) -> str:
        """Elements that the node at hand reduces, in the emitted code's constants."""
        if self._removes == self.reduced:
            return "(float)REDUCE"
        return "(float)(REDUCE * KEPT)" if self._removes == self.axes.all else "(float)KEPT"

    def reduce(self, kind: str, source: str) -> str:
        """Reduce a step over the axes that the node at hand removes."""
        step = self.steps[source]
        if self._removes == self.axes.all - self.reduced and not step.full:
            return self.combine(kind, source)
        if self._removes not in (self.reduced, self.axes.all):
            raise Unsupported("reductions over different axes")
        if not step.full:
            raise Unsupported("reduction of a value that does not vary over the reduced axes")
        result: Kind = {"argmax": "i", "count": "l"}.get(kind, "f")  # type: ignore[assignment]
        row = self._add(Expr("", "", (source,), result, False, step.stage + 1, reduction=kind))
        if self._removes == self.reduced:
            return row
        return self.combine("sum" if kind == "count" else kind, row)

    def combine(self, kind: str, source: str) -> str:
        """A row's value over all rows. Where all axes are reduced there is one row only."""
        step = self.steps[source]
        if self.reduced == self.axes.all:
            return source
        if kind == "count":
            source, kind = self._as(source, "l"), "sum"
            step = self.steps[source]
        if step.full or step.beyond or (step.kind, kind) not in _COMBINED:
            raise Unsupported(f"{kind} over all rows")
        return self._add(Expr("", "", (source,), step.kind, False, step.stage, total=kind, beyond=True))

    def reduce_compound(self, kind: str, source: str) -> tuple[str, str]:
        """Both parts of a compound reduction, from one pass."""
        if self._removes != self.reduced:
            raise Unsupported(f"{kind} over all rows")
        first = self.reduce(kind, source)
        stage = self.steps[first].stage
        return first, self._add(Expr("", "", (source,), "f", False, stage, reduction=kind, part=1, of=first))

    def pick(self, source: str, index: str) -> str:
        """The element of a full step at a row's own index; NaN where the index is outside."""
        step, at = self.steps[source], self.steps[index]
        if at.full or at.kind != "l":
            raise Unsupported("an index that varies along the row that it picks from")
        if not step.full:
            return source
        if step.kind != "f":
            raise Unsupported("picking among integers or masks")
        stage = max(step.stage, at.stage)
        return self._add(Expr("", "", (source, index), "f", False, stage, pick=True))

    # ---- internals

    @property
    def _span(self) -> frozenset[int]:
        """Return the axes that a value must run over to span the space: all axes but kept ones of one element."""
        return self.axes.all - (self.axes.ones - self.reduced)

    def _add(self, step: Expr) -> str:
        key = (
            step.text, step.args, step.kind, step.reduction, step.part, step.operand, step.pick, step.total
        )  # fmt: skip
        if key not in self._same:
            name = identifier(f"{self._hint}_{verb(step)}" if self._several else self._hint, self.steps)
            self._same[key] = name
            self.steps[name] = Expr(**{**step.__dict__, "name": name})
        return self._same[key]

    def _as(self, name: str, kind: Kind) -> str:
        return convert(self, name, self.steps[name].kind, kind)

    def _uniform(self, name: str) -> bool:
        """Tell whether the step is the same in all rows: made of constants and single elements."""
        step = self.steps[name]
        if step.full or step.beyond or step.reduction or step.pick:
            return False
        if step.operand is not None and set(step.operand.axes) & self.axes.all:
            return False
        return all(self._uniform(a) for a in step.args)

    def _tail(self, roots: list[str]) -> tuple[Expr, ...]:
        """The steps after all rows that `roots` take, and the uniform ones that those read."""
        reachable: set[str] = set()
        todo = list(roots)
        while todo:
            name = todo.pop()
            if name not in reachable:
                reachable.add(name)
                todo += () if self.steps[name].total else self.steps[name].args
        return tuple(s for s in self.steps.values() if s.name in reachable)

    def _operand(self, name: str, value: str) -> Operand:
        return self.axes.operand(name, value)

    def _load(self, operand: Operand) -> None:
        if operand.dtype not in STORED:
            raise Unsupported(f"{operand.value} is {operand.dtype}")
        self._hint = operand.value
        full = bool(set(operand.axes) & self.reduced) if self.reduced else True
        kind = kind_of(operand.dtype)
        self._value[operand.value] = self._add(Expr("", "load", (), kind, full, 0, operand=operand))

    def _node(self, node: Node) -> None:
        name = base_name(node)
        self._hint = node.output.name
        self._several = is_reducing(node)
        self._removes = self.removed.get(node.name, self.reduced)
        if name in VIEWS:
            self._value[node.output.name] = self._value[node.uses[0]]
        elif is_reducing(node):
            self._check_integers(node)
            results = (PICK_OPS.get(name) or REDUCE_OPS[name])(self, node)
            for value, step in zip(node.outputs, results, strict=False):
                if value is not None:
                    self._value[value.name] = step
        else:
            self._value[node.output.name] = self._pointwise(node)
        self._round_halves(node)

    def _round_halves(self, node: Node) -> None:
        """Round what the node makes where a step of a result depends on it."""
        for value in (v for v in node.outputs if v is not None and v.name in self._stepped):
            if base_name(node) not in VIEWS and value.name in self._value:
                self._value[value.name] = round_half(self, node, self._value[value.name], value.spec.dtype)

    def _pointwise(self, node: Node) -> str:
        lower = lowering_of(node)
        return self._scale_by_size(node) or lower(self, node)

    def _scale_by_size(self, node: Node) -> str | None:
        """A reduced value times or divided by a number that comes from a size."""
        name = base_name(node)
        sign = {"mul": "*", "div": "/"}.get(name)
        if sign is None or node.kwargs or not isinstance(node.args[1], int | float) or not self.reduced:
            return None
        step = self.steps[self._value[node.uses[0]]]
        if step.full or step.kind != "f" or not (step.stage or step.beyond):
            return None
        sizes, smoothing = self._sizes(step), any(s.pick for s in self.steps.values())
        if smoothing:
            sizes.sort(key=lambda s: s[1] != "REDUCE")
        text = in_terms_of_size(float(node.args[1]), sizes, smoothing)
        return None if text is None else self.emit(f"{{0}} {sign} {text}", step.name, cost=6)

    def _sizes(self, step: Expr) -> list[tuple[int, str]]:
        """List the sizes that the emitted code asserts: of the reductions, then of the axes they are made of."""
        sizes, all_axes = self.axes.sizes, self.axes.all
        sizes_by_name = [(prod(sizes[a] for a in self.reduced), "REDUCE")]
        if step.beyond:
            kept_size = prod(sizes[a] for a in all_axes - self.reduced)
            sizes_by_name = [
                (kept_size, "KEPT"),
                *sizes_by_name,
                (kept_size * sizes_by_name[0][0], "REDUCE * KEPT"),
            ]
        for load in (s.operand for s in self.steps.values() if s.operand is not None):
            for d, axis in enumerate(load.axes):
                if axis is not None and load.plain and (step.beyond or axis in self.reduced):
                    sizes_by_name.append((load.shape[d], f"{load.name}_shape[{d}]"))
        return sizes_by_name

    def _check_integers(self, node: Node) -> None:
        """Integers are reduced to a truth value only: sums and extrema of them would pass through float32."""
        name = base_name(node)
        if name in ("any", "all") or name in PICK_OPS:
            return
        if self.graph.specs[node.uses[0]].dtype in INTEGERS:
            raise Unsupported(f"{node.name} reduces integers")

    def _output(self, name: str, value: str) -> tuple[Operand, str]:
        operand = self._operand(name, value)
        self._several = False
        if value not in self._value:
            raise Unsupported(f"{value} is a by-product that is not computed here")
        step = self._value[value]
        self._hint = value
        if not (operand.dtype in INTEGERS and self.steps[step].kind == "i"):
            step = self._as(step, kind_of(operand.dtype))
        step = before_rounding(self.steps, step, operand.dtype)
        if self.steps[step].beyond:
            return operand, step
        span = self._span
        output_axes = {a for a in operand.axes if a is not None} & span
        if self.steps[step].full and output_axes != span:
            raise Unsupported(f"{value} does not span the iteration space")
        if not self.steps[step].full and output_axes == span and self.reduced:
            step = self._broadcast(step)
        elif not self.steps[step].full and output_axes != span - self.reduced:
            raise Unsupported(f"{value} does not span the kept axes")
        return operand, step

    def _broadcast(self, step: str) -> str:
        """A row's value written over the whole row."""
        source = self.steps[step]
        return self._add(Expr("", "{0}", (step,), source.kind, True, source.stage))

    def _live(self, roots: list[str]) -> tuple[Expr, ...]:
        live: set[str] = set()
        todo = list(roots)
        while todo:
            step = self.steps[todo.pop()]
            if step.name not in live:
                live.add(step.name)
                todo += [*step.args, *([step.of] if step.of else [])]
        return tuple(s for s in self.steps.values() if s.name in live)


def lower(graph: Graph, region: Region, single_pass: bool = False) -> Program:
    """Raises Unsupported."""
    return Lowering(graph, region, single_pass).program()


def try_lower(graph: Graph, region: Region) -> Program | None:
    """Lower a region as `lower` does; None for one that cannot be lowered."""
    try:
        return lower(graph, region)
    except Unsupported:
        return None


def _check(program: Program) -> None:
    if not program.outputs and not program.ends:
        raise Unsupported("nothing is returned")
    if not program.inputs:
        raise Unsupported("nothing is read")
    if any(s.reduction == "argmax" for s in program.steps):
        reduced_groups = [g for g in program.groups if g.reduced]
        if len(reduced_groups) != 1 or list(reduced_groups[0].axes) != sorted(reduced_groups[0].axes):
            raise Unsupported("index of an extremum over dimensions that are not flat together")
    if any(s.pick for s in program.steps) and sum(g.reduced for g in program.groups) != 1:
        raise Unsupported("a pick along dimensions that are not flat together")
    if not program.groups:
        raise Unsupported("a single element is not worth a kernel")
