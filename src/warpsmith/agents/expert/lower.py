"""A region of the graph → a `Program`.

In: the graph, a region, and whether compound reductions (moments; maximum with sum of exponentials) are to be
kept whole, so that one pass over the data finds both of their parts. Out: the program, or Unsupported when a
node, a dtype or a layout is not one that this generator can write.
"""

from __future__ import annotations

import re
from typing import Any

from ...records import Graph, Node, Region
from .axes import KEEPING, REDUCING, VIEWS, Axes, base_name, reduced_dims
from .ops import FLOATS, literal, number, pointwise
from .program import Expr, Group, Kind, Operand, Program, Unsupported
from .reduce_ops import REDUCE_OPS

# Names that the emitted code uses for itself, and C++ keywords a graph's value may be called.
RESERVED = {
    "row", "col", "j", "n", "u", "b", "c", "end", "begin", "unit", "workspace", "stream", "stash", "part",
    "ws", "full",
    "and", "or", "not", "xor", "int", "float", "double", "bool", "new", "delete", "class", "this",
    "template", "auto", "vectors",
    "read", "write", "keep", "best", "task", "bitand", "bitor", "compl", "default", "case", "switch", "for",
    "if", "else", "return",
    "true", "false", "union", "struct", "enum", "const", "static", "using", "namespace", "operator",
    "public", "private",
    "signed", "unsigned", "short", "long", "char", "void", "while", "do", "goto", "break", "continue",
    "try", "throw",
    "index", "step", "round", "read_bool", "write_bool", "last", "first", "extent", "total", "typename",
    "register",
}  # fmt: skip


class Lowering:
    """The builder that op tables write into: keeps the steps, the loads and what each value of the graph
    became.
    """

    def __init__(self, graph: Graph, region: Region, single_pass: bool) -> None:
        self.graph, self.region, self.single_pass = graph, region, single_pass
        self.nodes = [graph.by_name[n] for n in region.nodes]
        self.axes = Axes(graph, self.nodes)
        self.reduced = _reduced_axes(self.axes, self.nodes)
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
        outputs = tuple(self._output(f"out{i}", v) for i, v in enumerate(self.region.outputs))
        groups = _groups(inputs, tuple(o for o, _ in outputs), self._order(inputs, outputs), self.reduced)
        program = Program(inputs, outputs, self._live([name for _, name in outputs]), groups)
        _check(program)
        return program

    # ---- the Builder interface of ops.py

    def arg(self, value: Any, kind: Kind = "f") -> str:
        """The step for an argument, converted to `kind`."""
        if not (isinstance(value, dict) and "v" in value):
            return self._as(self.constant(number(value)), kind)
        return self._as(self._value[value["v"]], kind)

    def emit(self, text: str, *args: str, kind: Kind = "f", cost: int = 1) -> str:
        full = any(self.steps[a].full for a in args)
        stage = max((self.steps[a].stage for a in args), default=0)
        return self._add(Expr("", text, args, kind, full, stage, cost=cost))

    def constant(self, value: float) -> str:
        return self.emit(literal(value), cost=0)

    def reduce(self, kind: str, source: str) -> str:
        """Reduce a full step over all the reduced axes."""
        step = self.steps[source]
        if not step.full:
            raise Unsupported("reduction of a value that does not vary over the reduced axes")
        result: Kind = "i" if kind == "argmax" else "f"
        return self._add(Expr("", "", (source,), result, False, step.stage + 1, reduction=kind))

    def compound(self, kind: str, source: str) -> tuple[str, str]:
        """Both parts of a compound reduction, from one pass."""
        first = self.reduce(kind, source)
        stage = self.steps[first].stage
        return first, self._add(Expr("", "", (source,), "f", False, stage, reduction=kind, part=1, of=first))

    # ---- internals

    def _add(self, step: Expr) -> str:
        key = (step.text, step.args, step.kind, step.reduction, step.part, step.operand)
        if key not in self._same:
            name = self._unique(f"{self._hint}_{_verb(step)}" if self._several else self._hint)
            self._same[key] = name
            self.steps[name] = Expr(**{**step.__dict__, "name": name})
        return self._same[key]

    def _unique(self, hint: str) -> str:
        base = hint if hint.isidentifier() and hint.isascii() and hint not in RESERVED else f"{hint}_"
        base = "".join(c if c.isalnum() and c.isascii() else "_" for c in base).strip("_") or "v"
        base = base if not base[0].isdigit() and base not in RESERVED else f"v_{base}"
        name, count = base, 1
        while name in self.steps:
            name, count = f"{base}_s{count}", count + 1
        return name

    def _as(self, name: str, kind: Kind) -> str:
        have = self.steps[name].kind
        if have == kind:
            return name
        if (have, kind) == ("f", "m"):
            return self.emit("{0} != 0.0f", name, kind="m")
        if (have, kind) == ("m", "f"):
            return self.emit("ws::select({0}, {1}, {2})", name, self.constant(1.0), self.constant(0.0))
        raise Unsupported("arithmetic on indices")

    def _operand(self, name: str, value: str) -> Operand:
        spec = self.graph.specs[value]
        return Operand(name, value, spec.dtype, self.axes.of(value), spec.shape, spec.stride)

    def _load(self, operand: Operand) -> None:
        if operand.dtype not in (*FLOATS, "bool"):
            raise Unsupported(f"{operand.value} is {operand.dtype}")
        self._hint = operand.value
        full = bool(set(operand.axes) & self.reduced) if self.reduced else True
        kind: Kind = "m" if operand.dtype == "bool" else "f"
        self._value[operand.value] = self._add(Expr("", "load", (), kind, full, 0, operand=operand))

    def _node(self, node: Node) -> None:
        name = base_name(node)
        self._hint = node.output.name
        self._several = name in KEEPING or name in REDUCING
        if name in VIEWS:
            self._value[node.output.name] = self._value[node.uses[0]]
        elif name in KEEPING or (name in REDUCING and not node.op.endswith(".other")):
            results = REDUCE_OPS[name](self, node)
            for value, step in zip(node.outputs, results, strict=False):
                if value is not None:
                    self._value[value.name] = step
        else:
            lower = pointwise(node.op)
            if lower is None:
                raise Unsupported(f"{node.op} is not known")
            if node.output.spec.dtype not in (*FLOATS, "bool"):
                raise Unsupported(f"{node.name} makes {node.output.spec.dtype}")
            self._value[node.output.name] = lower(self, node)

    def _output(self, name: str, value: str) -> tuple[Operand, str]:
        operand = self._operand(name, value)
        self._several = False
        if value not in self._value:
            raise Unsupported(f"{value} is a by-product that is not computed here")
        step = self._value[value]
        wanted: Kind = {"bool": "m", "int64": "i"}.get(operand.dtype, "f")  # type: ignore[assignment]
        self._hint = value
        step = self._as(step, wanted)
        span = set(range(len(self.graph.specs[self.axes.span].shape)))
        own = {a for a in operand.axes if a is not None}
        if self.steps[step].full and own != span:
            raise Unsupported(f"{value} does not span the iteration space")
        if not self.steps[step].full and own == span and self.reduced:
            step = self._broadcast(step)
        elif not self.steps[step].full and own != span - self.reduced:
            raise Unsupported(f"{value} does not span the kept axes")
        return operand, step

    def _broadcast(self, step: str) -> str:
        """A row's value written over the whole row."""
        old = self.steps[step]
        return self._add(Expr("", "{0}", (step,), old.kind, True, old.stage))

    def _order(self, inputs: tuple[Operand, ...], outputs: tuple[tuple[Operand, str], ...]) -> list[int]:
        """Axes from outermost to innermost: as memory has them in the first operand that spans the space."""
        count = len(self.graph.specs[self.axes.span].shape)
        for operand in (*inputs, *(o for o, _ in outputs)):
            where = {a: d for d, a in enumerate(operand.axes) if a is not None}
            if len(where) == count:
                return sorted(range(count), key=lambda a: (-_weight(operand, where[a]), where[a]))
        return list(range(count))

    def _live(self, roots: list[str]) -> tuple[Expr, ...]:
        wanted: set[str] = set()
        todo = list(roots)
        while todo:
            step = self.steps[todo.pop()]
            if step.name not in wanted:
                wanted.add(step.name)
                todo += [*step.args, *([step.of] if step.of else [])]
        return tuple(s for s in self.steps.values() if s.name in wanted)


def _verb(step: Expr) -> str:
    """What a step does, in a word: "max", "exp", "sub"."""
    if step.reduction:
        parts = {
            ("moments", 0): "mean",
            ("moments", 1): "squares",
            ("softmax", 0): "max",
            ("softmax", 1): "sum",
            ("fmax", 0): "max",
        }
        return parts.get((step.reduction, step.part), step.reduction)
    call = re.match(r"ws::(\w+)\(", step.text)
    if call:
        return call[1].removesuffix("_nonpos").removesuffix("_nan")
    symbols = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
    return next((word for symbol, word in symbols.items() if f" {symbol} " in step.text), "v")


def lower(graph: Graph, region: Region, single_pass: bool = False) -> Program:
    """Raises Unsupported."""
    return Lowering(graph, region, single_pass).program()


def _weight(operand: Operand, dim: int) -> int:
    """Stride, or for a dimension of size 1 (whose stride means nothing) what its neighbours to the right
    span.
    """
    if operand.shape[dim] != 1:
        return operand.stride[dim]
    right = [
        s * n for s, n in zip(operand.stride[dim + 1 :], operand.shape[dim + 1 :], strict=True) if n != 1
    ]
    return max(right, default=1)


def _reduced_axes(axes: Axes, nodes: list[Node]) -> frozenset[int]:
    """The axes that every reduction of the region reduces; all must agree."""
    found = {
        axes.reduced_by(n) if base_name(n) in REDUCING else _kept_reduction(axes, n)
        for n in nodes
        if (base_name(n) in REDUCING and not n.op.endswith(".other")) or base_name(n) in KEEPING
    }
    if len(found) > 1:
        raise Unsupported("reductions over different axes")
    return next(iter(found), frozenset())


def _kept_reduction(axes: Axes, node: Node) -> frozenset[int]:
    spec = axes.graph.specs[node.uses[0]]
    own = axes.of(node.uses[0])
    picked = [own[d] for d in reduced_dims(node, spec)]
    if any(a is None for a in picked):
        raise Unsupported(f"{node.name} reduces a dimension of size 1")
    return frozenset(a for a in picked if a is not None)


def _groups(
    inputs: tuple[Operand, ...], outputs: tuple[Operand, ...], order: list[int], reduced: frozenset[int]
) -> tuple[Group, ...]:
    """Neighbouring axes merge where every operand is flat over both."""
    groups: list[Group] = []
    for axis in order:
        before = groups[-1] if groups else None
        together = before is not None and before.reduced == (axis in reduced)
        if (
            before is not None
            and together
            and all(_flat(o, before.axes[-1], axis) for o in (*inputs, *outputs))
        ):
            groups[-1] = Group((*before.axes, axis), before.reduced)
        else:
            groups.append(Group((axis,), axis in reduced))
    return tuple(groups)


def _flat(operand: Operand, outer: int, inner: int) -> bool:
    if (outer in operand.axes) != (inner in operand.axes):
        return False
    if outer not in operand.axes:
        return True
    a, b = operand.axes.index(outer), operand.axes.index(inner)
    return b == a + 1 and (operand.shape[a] == 1 or operand.stride[a] == operand.stride[b] * operand.shape[b])


def _check(program: Program) -> None:
    if not program.outputs:
        raise Unsupported("nothing is returned")
    if not program.inputs:
        raise Unsupported("nothing is read")
    if any(s.reduction == "argmax" for s in program.steps):
        own = [g for g in program.groups if g.reduced]
        if len(own) != 1 or list(own[0].axes) != sorted(own[0].axes):
            raise Unsupported("index of an extremum over dimensions that are not flat together")
    for operand in program.inputs:
        if not any(operand == s.operand for s in program.steps):
            continue
    if not program.groups:
        raise Unsupported("a single element is not worth a kernel")
