"""A functional core-ATen graph as plain data: values, nodes, inputs and outputs. No torch object inside.

Arguments of a node are JSON, with these tagged forms for what JSON lacks:
`{"v": name}` a value of the graph · `{"f": "inf" | "-inf" | "nan"}` · `{"dtype": "float32"}` ·
`{"device": "cpu"}` · `{"layout": "strided"}` · `{"memory_format": "contiguous_format"}`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from math import prod
from typing import Any, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer

from .partial_update import count_written_bytes, find_writers
from .record import Record

ITEM_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1,
    "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "complex64": 8, "complex128": 16,
}  # fmt: skip


class TensorSpec(Record):
    shape: tuple[int, ...]
    dtype: str  # torch's name without "torch."
    stride: tuple[int, ...]  # in elements

    @property
    def numel(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, each counted once (an expanded dimension counts its distinct elements only)."""
        distinct = prod(n for n, s in zip(self.shape, self.stride, strict=True) if s != 0 or n == 0)
        return distinct * ITEM_BYTES[self.dtype]

    @property
    def contiguous(self) -> bool:
        expected = 1
        for n, s in zip(reversed(self.shape), reversed(self.stride), strict=True):
            if n != 1 and s != expected:
                return False
            expected *= n
        return True


class Value(Record):
    name: str
    spec: TensorSpec


class GraphInput(Record):
    name: str  # the value's name
    spec: TensorSpec
    role: Literal["input", "param", "buffer", "constant"]
    target: str  # the user's argument name, or the parameter's qualified name
    data: str = ""  # of a constant that is a literal in the module's code: base64 of its elements, contiguous


class GraphOutput(Record):
    """One leaf of what the module returns, or one buffer update. Exactly one of `value` and `literal` counts."""

    value: str | None  # None: the leaf is not a tensor
    literal: Any = None
    role: Literal["output", "buffer_update", "input_update"] = "output"
    target: str = ""  # qualified name of the buffer, or the input, that takes the value


class Node(Record):
    name: str
    op: str  # "aten.add.Tensor": namespace.name.overload
    args: tuple[Any, ...]  # JSON with the tagged forms above
    kwargs: dict[str, Any]
    outputs: tuple[Value | None, ...]  # one, or several for ops that return tuples; None: unused or undefined
    where: str = ""  # "file.py:12 in forward", for messages
    flops: int = 0
    module: str = ""  # qualified name of the user's submodule that runs it; empty: the module itself

    @model_serializer(mode="wrap")
    def _without_default(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out an empty module, as before there was the field: older records keep their ids."""
        fields: dict[str, Any] = handler(self)
        if not self.module:
            fields.pop("module", None)
        return fields

    @cached_property
    def uses(self) -> tuple[str, ...]:
        """Names of the values the node reads, in order of appearance, each once."""
        return tuple(dict.fromkeys(_find_references([*self.args, *self.kwargs.values()])))

    @property
    def base_name(self) -> str:
        """ "aten.sum.dim_IntList" → "sum"; empty for an operation that is not of ATen."""
        space, name, *_ = (*self.op.split("."), "")
        return name if space == "aten" else ""

    def count_reads(self, value: str) -> int:
        """Count how often a value stands among the arguments."""
        return sum(name == value for name in _find_references([*self.args, *self.kwargs.values()]))

    @property
    def listing(self) -> str:
        """The node on one line, for people."""
        outputs = ", ".join(v.name if v is not None else "_" for v in self.outputs)
        keywords = (f"{k}={_show_argument(v)}" for k, v in self.kwargs.items())
        return f"{outputs} = {self.op}({', '.join([*map(_show_argument, self.args), *keywords])})"

    @property
    def output(self) -> Value:
        """The only (or first) tensor the node makes."""
        for value in self.outputs:
            if value is not None:
                return value
        raise ValueError(f"{self.name} ({self.op}) makes no tensor")


class Graph(Record):
    inputs: tuple[GraphInput, ...]
    nodes: tuple[Node, ...]  # in an order in which they can run
    outputs: tuple[GraphOutput, ...]
    tree: (
        str  # JSON of how the output leaves nest: a leaf number, a list, {"tuple": [...]} or {"dict": {...}}
    )
    call: str = ""  # JSON {"tuple": [args, kwargs]}, nested as `tree`: a leaf is the number of an input, or {"const": value}

    def __hash__(self) -> int:
        """Nodes' arguments are JSON, which has no hash."""
        return hash(self.id)

    @cached_property
    def specs(self) -> dict[str, TensorSpec]:
        """Spec of every value, by name."""
        made_specs = {v.name: v.spec for n in self.nodes for v in n.outputs if v is not None}
        return {i.name: i.spec for i in self.inputs} | made_specs

    @cached_property
    def producer(self) -> dict[str, Node]:
        return {v.name: n for n in self.nodes for v in n.outputs if v is not None}

    @cached_property
    def by_name(self) -> dict[str, Node]:
        return {n.name: n for n in self.nodes}

    @cached_property
    def positions(self) -> dict[str, int]:
        """Place of each node among the nodes, by its name."""
        return {n.name: position for position, n in enumerate(self.nodes)}

    @cached_property
    def users(self) -> dict[str, tuple[Node, ...]]:
        """Nodes that read a value, by the value's name; every value has an entry."""
        table: dict[str, list[Node]] = {name: [] for name in self.specs}
        for node in self.nodes:
            for name in node.uses:
                table[name].append(node)
        return {name: tuple(nodes) for name, nodes in table.items()}

    @cached_property
    def returned(self) -> frozenset[str]:
        return frozenset(o.value for o in self.outputs if o.value is not None)

    @cached_property
    def partial_updates(self) -> dict[str, tuple[Node, ...]]:
        """New values of inputs that other values were written into, by name: the nodes that did so, the last first. No such value is
        another result, too.
        """
        writers = {o.value: find_writers(self, o) for o in self.outputs if o.value is not None}
        times = Counter(o.value for o in self.outputs)
        return {value: nodes for value, nodes in writers.items() if nodes and times[value] == 1}

    @property
    def written_bytes(self) -> int:
        """Bytes of all outputs; of an update in parts those parts."""
        return sum(
            sum(count_written_bytes(self, node) for node in self.partial_updates[name])
            if name in self.partial_updates
            else self.specs[name].nbytes
            for name in self.returned
        )

    def is_read_once(self, value: str) -> bool:
        """Tell whether one node alone reads a value, and nobody outside of the graph."""
        return len(self.users[value]) == 1 and value not in self.returned

    @property
    def flops(self) -> int:
        return sum(n.flops for n in self.nodes)

    @property
    def least_bytes(self) -> int:
        """Every input that is used read once, every output written once."""
        read = sum(i.spec.nbytes for i in self.inputs if self.users[i.name] or i.name in self.returned)
        return read + self.written_bytes


def _show_argument(arg: Any) -> str:
    if isinstance(arg, dict):
        return str(next(iter(arg.values()), ""))
    return f"[{', '.join(map(_show_argument, arg))}]" if isinstance(arg, list | tuple) else repr(arg)


def _find_references(args: Any) -> Iterator[str]:
    if isinstance(args, dict):
        if "v" in args:
            yield args["v"]
    elif isinstance(args, list | tuple):
        for arg in args:
            yield from _find_references(arg)
