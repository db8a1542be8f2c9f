"""A product and the addition behind it, perhaps with an activation, as one call of the library: the epilogue of its GEMM.

`linear` and `mm` with a bias of one value a column become `linear` with a bias, and `_addmm_activation` with relu or tanh-gelu behind it; a
summand of the product's own shape goes into `addmm`, one of any shape that broadcasts into `baddbmm`. Exact gelu is left alone: the epilogue of
cublasLt computes the other.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from ...codegen.lowering.axis_relations import base_name
from ...codegen.lowering.op_builder import FLOATS, option
from ...codegen.rewrites.algebra import only_user
from ...codegen.rewrites.folding import bias_of
from ...codegen.rewrites.rewriting import NodeMaker
from ...errors import TaskError
from ...facts import Facts
from ...records import Graph, Node, Region, Value
from ...tasks.regions import make_region
from ..costs import node_us
from .alternative import PREFIX

PRODUCTS = ("linear", "mm", "matmul", "bmm")


@dataclass(frozen=True)
class Epilogue:
    """activation(alpha · lhs · rhs + beta · summand). `nodes`: the product first."""

    nodes: tuple[Node, ...]
    lhs: str
    rhs: str  # (columns, depth) where the product is `linear`, else (…, depth, columns)
    summand: str | None = None
    alpha: float = 1
    beta: float = 1
    activation: str = ""  # "relu" or "gelu"

    @property
    def output(self) -> Value:
        return self.nodes[-1].output

    @property
    def is_linear(self) -> bool:
        return base_name(self.nodes[0]) == "linear"

    @property
    def is_batched(self) -> bool:
        return base_name(self.nodes[0]) == "bmm"

    def has_bias(self, graph: Graph) -> bool:
        """Tell whether the summand is one value a column."""
        return self.summand is not None and graph.specs[self.summand].shape == self.output.spec.shape[-1:]


class AddmmEpilogue:
    technique = f"{PREFIX}addmm-epilogue"
    why = "what follows the product is done by the library's GEMM: no pass over its result"

    def cut(self, graph: Graph) -> list[list[str]]:
        matched = [match_epilogue(graph, node, graph.by_name) for node in graph.nodes]
        return [
            names for e in matched if e is not None and _is_region(graph, names := [n.name for n in e.nodes])
        ]

    def matches(self, graph: Graph, region: Region) -> bool:
        return _match_region(graph, region) is not None

    def write(self, graph: Graph, region: Region) -> list[Node]:
        epilogue = _match_region(graph, region)
        assert epilogue is not None  # asked for regions that match
        return _Writing(graph, epilogue).nodes()

    def predict_us(self, graph: Graph, region: Region, facts: Facts) -> float:
        """Predict the product as measured, and copying a summand of its shape to where the sum goes."""
        epilogue = _match_region(graph, region)
        assert epilogue is not None
        is_free = epilogue.has_bias(graph) and not epilogue.is_batched
        copied = 0 if is_free else 2 * epilogue.output.spec.nbytes
        return node_us(graph, epilogue.nodes[0], facts) + copied / facts.bandwidth * 1e6


def match_epilogue(graph: Graph, node: Node, within: Collection[str]) -> Epilogue | None:
    """The longest chain of nodes in `within` that begins at a product and fits one call."""
    epilogue = _read_product(graph, node)
    if epilogue is None:
        return None
    for read in (_with_scale, _with_summand, _with_activation):
        user = only_user(graph, epilogue.nodes[-1])
        if user is not None and user.name in within and _keeps_spec(epilogue, user):
            epilogue = read(graph, epilogue, user) or epilogue
    return epilogue if epilogue.summand is not None and len(epilogue.nodes) > 1 else None


def _match_region(graph: Graph, region: Region) -> Epilogue | None:
    """The chain that a region is, with nothing besides."""
    epilogue = match_epilogue(graph, graph.by_name[region.nodes[0]], region.nodes)
    return epilogue if epilogue is not None and len(epilogue.nodes) == len(region.nodes) else None


def _is_region(graph: Graph, names: list[str]) -> bool:
    try:
        make_region(graph, names)
    except TaskError:
        return False
    return True


def _read_product(graph: Graph, node: Node) -> Epilogue | None:
    name = base_name(node)
    if name not in PRODUCTS or node.kwargs or node.output.spec.dtype not in FLOATS:
        return None
    lhs, rhs = (str(arg["v"]) for arg in node.args[:2])
    ranks = len(graph.specs[lhs].shape), len(graph.specs[rhs].shape)
    fits = ranks == (3, 3) if name == "bmm" else ranks[0] >= 2 and ranks[1] == 2
    if not fits or (ranks[0] > 2 and not graph.specs[lhs].contiguous and name != "bmm"):
        return None
    return Epilogue((node,), lhs, rhs, bias_of(node))


def _keeps_spec(epilogue: Epilogue, user: Node) -> bool:
    before, after = epilogue.output.spec, user.output.spec
    return (before.shape, before.dtype) == (after.shape, after.dtype) and after.contiguous


def _with_scale(graph: Graph, epilogue: Epilogue, user: Node) -> Epilogue | None:
    """A product times or over a number."""
    number = user.args[1] if len(user.args) == 2 else None
    if base_name(user) not in ("mul", "div") or user.kwargs or epilogue.summand is not None:
        return None
    if isinstance(number, bool) or not isinstance(number, int | float) or not number:
        return None
    alpha = float(number) if base_name(user) == "mul" else 1.0 / float(number)
    return replace(epilogue, nodes=(*epilogue.nodes, user), alpha=alpha)


def _with_summand(graph: Graph, epilogue: Epilogue, user: Node) -> Epilogue | None:
    """A sum of the product and a value that the call takes along."""
    if user.op != "aten.add.Tensor" or epilogue.summand is not None or len(user.uses) != 2:
        return None
    factor, product = option(user, 2, "alpha", 1), {"v": epilogue.output.name}
    if not isinstance(factor, int | float):
        return None
    first, second = user.args[:2]
    if product not in (first, second) or not all(isinstance(a, dict) for a in (first, second)):
        return None
    summand = second if first == product else first
    spec, shape = graph.specs[summand["v"]], user.output.spec.shape
    scaled = {"beta": float(factor)} if first == product else {"alpha": epilogue.alpha * factor}
    with_sum = replace(epilogue, nodes=(*epilogue.nodes, user), summand=summand["v"], **scaled)  # type: ignore[arg-type]
    plain = with_sum.alpha == with_sum.beta == 1
    fits = epilogue.is_batched or spec.shape == shape or (plain and spec.shape == shape[-1:])
    return with_sum if fits and spec.dtype == user.output.spec.dtype else None


def _with_activation(graph: Graph, epilogue: Epilogue, user: Node) -> Epilogue | None:
    name = base_name(user)
    is_fused = name == "relu" or (name == "gelu" and option(user, 1, "approximate", "none") == "tanh")
    if not is_fused or epilogue.is_batched or not epilogue.has_bias(graph):
        return None
    return replace(epilogue, nodes=(*epilogue.nodes, user), activation=name)


class _Writing(NodeMaker):
    """The nodes of the one call, around it views that bring rows together and apart again."""

    def __init__(self, graph: Graph, epilogue: Epilogue) -> None:
        super().__init__(graph, f"{epilogue.nodes[-1].name}_epilogue", epilogue.output.spec.dtype)
        self.epilogue = epilogue

    def nodes(self) -> list[Node]:
        epilogue, shape = self.epilogue, self.epilogue.output.spec.shape
        if epilogue.is_batched:
            self._call("aten.baddbmm.default", epilogue.summand, epilogue.lhs, epilogue.rhs, shape)
        elif epilogue.has_bias(self.graph) and not epilogue.activation:
            rhs = epilogue.rhs if epilogue.is_linear else self._transpose(epilogue.rhs)
            operands = ({"v": epilogue.lhs}, {"v": rhs}, {"v": epilogue.summand})
            self.add("aten.linear.default", operands, shape)
        else:
            self._product()
        return self.ending(epilogue.output)

    def _product(self) -> None:
        """Write `addmm` or `_addmm_activation` over all rows."""
        epilogue, shape = self.epilogue, self.epilogue.output.spec.shape
        rhs = self._transpose(epilogue.rhs) if epilogue.is_linear else epilogue.rhs
        summand = epilogue.summand if epilogue.has_bias(self.graph) else self._flatten(epilogue.summand)
        name = "_addmm_activation" if epilogue.activation else "addmm"
        rows = self._flatten(epilogue.lhs)
        product = self._call(f"aten.{name}.default", summand, rows, rhs, (self._count_rows(), shape[-1]))
        if len(shape) > 2:
            self.add("aten.reshape_as.default", ({"v": product}, {"v": self._make_shape_view()}), shape)

    def _call(self, op: str, summand: str | None, lhs: str, rhs: str, shape: tuple[int, ...]) -> str:
        options: dict[str, Any] = {"use_gelu": True} if self.epilogue.activation == "gelu" else {}
        options |= {"beta": self.epilogue.beta} if self.epilogue.beta != 1 else {}
        options |= {"alpha": self.epilogue.alpha} if self.epilogue.alpha != 1 else {}
        return self.add(op, ({"v": summand}, {"v": lhs}, {"v": rhs}), shape, options)

    def _make_shape_view(self) -> str:
        """A view of the result's shape, since nodes name no sizes."""
        epilogue, shape = self.epilogue, self.epilogue.output.spec.shape
        assert epilogue.summand is not None
        if not epilogue.has_bias(self.graph):
            return epilogue.summand
        first = self.add("aten.select.int", ({"v": epilogue.lhs}, -1, 0), shape[:-1])
        column = self.add("aten.unsqueeze.default", ({"v": first}, -1), (*shape[:-1], 1))
        return self.broadcast((column, epilogue.summand), shape)

    def _flatten(self, value: str | None) -> str:
        assert value is not None
        shape = self.shape_of(value)
        if len(shape) == 2:
            return value
        rows = (self._count_rows(), shape[-1])
        return self.add("aten.flatten.using_ints", ({"v": value}, 0, -2), rows)

    def _transpose(self, value: str) -> str:
        return self.add("aten.t.default", ({"v": value},), self.shape_of(value)[::-1])

    def _count_rows(self) -> int:
        count = 1
        for size in self.epilogue.output.spec.shape[:-1]:
            count *= size
        return count
