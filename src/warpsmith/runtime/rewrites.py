"""A graph with some regions in other ATen operations: what units without code state, and what rewritten references are.

In: a task's graph and units that state a rewrite. Out: a graph of the same inputs and outputs, in which the rewrite's
nodes stand in place of the region's; units over other regions fit it as they fit the task's. A rewrite is the word of
whoever wrote the unit: its form is checked here, its values by the judge.

A unit in "aten" is deployed, so its operations come from a list: those that make new values from old ones and nothing
else. What makes memory without filling it, draws numbers, or names sizes and devices of its own choice is not on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import TaskError
from ..records import Graph, Node, Region, Unit
from ..tasks.regions import topological_groups

# Results that may share memory with an operand: fine on the way. As a region's output only new memory in another shape is.
VIEWS = frozenset({
    "broadcast_tensors", "expand", "flatten", "permute", "reshape", "reshape_as", "select", "slice", "squeeze", "t", "transpose",
    "unflatten", "unsqueeze", "view",
})  # fmt: skip
RESHAPES = frozenset(
    {"flatten", "reshape", "reshape_as", "unflatten", "view"}
)  # all of their operand's elements, each once
ALLOWED = VIEWS | {
    "abs", "_adaptive_avg_pool2d", "add", "addcdiv", "addcmul", "addmm", "_addmm_activation", "amax", "amin", "avg_pool2d", "baddbmm",
    "bmm", "cat", "clamp", "clone", "convolution", "cumsum", "div", "erf", "exp", "exp2", "expm1", "flip", "gelu", "hardsigmoid",
    "hardswish", "hardtanh", "leaky_relu", "linear", "log", "log1p", "log2", "logsumexp", "matmul", "max_pool2d_with_indices",
    "maximum", "mean", "minimum", "mm", "mul", "native_group_norm", "native_layer_norm", "neg",
    "_native_batch_norm_legit_no_training", "pow", "prod", "reciprocal", "relu", "rsqrt", "rsub", "sigmoid", "silu",
    "_softmax", "softmax", "sqrt", "square", "sub", "sum", "tanh", "tril", "triu", "upsample_bilinear2d", "upsample_nearest2d",
    "var", "where",
}  # fmt: skip


def with_rewrites(graph: Graph, units: Iterable[Unit]) -> Graph:
    """The graph with the region of each unit in the operations of its rewrite; units without one change nothing.

    Raises TaskError for a rewrite that does not fit its region, or uses a name of the graph's.
    """
    stated = {u.region.id: (u.region, u.rewrite) for u in units if u.rewrite is not None}
    if not stated:
        return graph
    nodes: list[Node] = []
    for step in topological_groups(graph, [region for region, _ in stated.values()]):
        if isinstance(step, Region):
            region, rewrite = stated[step.id]
            _check(graph, region, rewrite)
            nodes += rewrite.nodes
        else:
            nodes.append(step)
    names = [v.name for n in nodes for v in n.outputs if v is not None]
    input_names = {i.name for i in graph.inputs}
    if len({n.name for n in nodes}) < len(nodes) or len(input_names | set(names)) < len(input_names) + len(
        names
    ):
        raise TaskError("a rewrite uses a name twice, or one that the task's graph uses")
    return graph.model_copy(update={"nodes": tuple(nodes)})


def deployed_graph(graph: Graph, units: Sequence[Unit]) -> Graph:
    """The graph that a candidate's compiled units are put into: with the regions of the others rewritten.

    Raises TaskError as `with_rewrites` does.
    """
    return with_rewrites(graph, [u for u in units if not u.compiled])


def find_rewritten(graph: Graph, units: Sequence[Unit]) -> Graph | None:
    """Return the deployed graph where units in ATen change it; else None. Raises TaskError as `with_rewrites` does."""
    deployed = deployed_graph(graph, units)
    return deployed if deployed is not graph else None


def forbidden(rewrite: Graph) -> str:
    """Why a unit may not be these operations; empty when it may."""
    for node in rewrite.nodes:
        space, _, remainder = node.op.partition(".")
        if space != "aten" or remainder.partition(".")[0] not in ALLOWED:
            return f"{node.op} is not one of the operations that a unit in aten may use"
    memories: set[str] = set()
    for output in rewrite.outputs:
        value = output.value or ""
        if value in rewrite.producer:
            memory = _find_memory(rewrite, value)
            if memory is None or memory in memories:
                return (
                    f"{rewrite.producer[value].op} makes the output {value}, which must be memory of its own"
                )
            memories.add(memory)
    return ""


def _find_memory(rewrite: Graph, value: str) -> str | None:
    """The value whose new memory this one is, by way of views in another shape; None where it may be an operand's."""
    while (maker := rewrite.producer.get(value)) is not None:
        name = maker.op.split(".")[1]
        if name not in VIEWS:
            return value
        source = maker.args[0] if name in RESHAPES else None
        value = source["v"] if isinstance(source, dict) and "v" in source else ""
    return None


def _check(graph: Graph, region: Region, rewrite: Graph) -> None:
    """It reads what the region reads, and makes what the region makes."""
    for item in rewrite.inputs:
        if item.name not in region.inputs or item.spec != graph.specs[item.name]:
            raise TaskError(f"a rewrite reads {item.name}, which is no such input of its region")
    input_names = {i.name for i in rewrite.inputs}
    for node in rewrite.nodes:
        if not input_names.issuperset(node.uses):
            raise TaskError(f"a rewrite's node {node.name} reads what nothing before it makes")
        input_names.update(v.name for v in node.outputs if v is not None)
    for name in region.outputs:
        expected, actual = graph.specs[name], rewrite.specs.get(name)
        if (
            name not in rewrite.producer
            or actual is None
            or (actual.shape, actual.dtype) != (expected.shape, expected.dtype)
        ):
            raise TaskError(f"a rewrite does not make {name} as its region does")
