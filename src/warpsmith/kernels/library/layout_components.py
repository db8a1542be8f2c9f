"""The parts of a graph that can run in channels-last: convolutions and the operations around them that follow any layout.

In: a graph. Out: convex sets of nodes, each with a convolution in it, no two of which wait for each other.
"""

from __future__ import annotations

from collections import defaultdict

from ...codegen.lowering.axis_relations import base_name
from ...codegen.lowering.op_builder import FLOATS, option
from ...codegen.rewrites.folding import BATCH_NORM
from ...records import Graph, Node, TensorSpec

IMAGE_RANK = 4
ELEMENTWISE = frozenset({
    "abs", "add", "clamp", "div", "exp", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "maximum", "minimum", "mul",
    "neg", "relu", "sigmoid", "silu", "sub", "tanh",
})  # fmt: skip
WINDOWED = frozenset({"avg_pool2d", "max_pool2d_with_indices", "_adaptive_avg_pool2d"})
UPSAMPLING = frozenset({"upsample_bilinear2d", "upsample_nearest2d"})


def is_convolution(graph: Graph, node: Node) -> bool:
    """Tell whether it convolves images."""
    if base_name(node) != "convolution" or len(node.args) != 9 or node.kwargs:
        return False
    return (
        len(graph.specs[node.args[0]["v"]].shape) == len(graph.specs[node.args[1]["v"]].shape) == IMAGE_RANK
    )


def list_layout_components(graph: Graph) -> list[list[str]]:
    """List the nodes of each part, in the order of the graph."""
    components: defaultdict[str, list[str]] = defaultdict(list)
    leaders = _Leaders()
    levels = _find_levels(graph)
    for name, level in levels.items():
        node = graph.by_name[name]
        for value in (*node.uses, *(v.name for v in node.outputs if v is not None)):
            leaders.join(name, f"{level} {value}")
    for name in levels:
        components[leaders.find(name)].append(name)
    convolving = {n.name for n in graph.nodes if is_convolution(graph, n)}
    return [names for names in components.values() if not convolving.isdisjoint(names)]


def follows_layout(graph: Graph, node: Node) -> bool:
    """Tell whether the node works on images in any layout, and on contiguous ones in the graph."""
    first, *further = node.outputs
    if first is None or any(v is not None for v in further) or not _is_plain_image(first.spec):
        return False
    name = base_name(node)
    if name in UPSAMPLING:
        return len(node.args) > 1 and node.args[1] is None  # by a factor, not to a size
    if name == "cat":
        return option(node, 1, "dim", 0) == 1
    takes_any = name in ELEMENTWISE or name in WINDOWED or node.op == BATCH_NORM
    return takes_any or is_convolution(graph, node)


def _is_plain_image(spec: TensorSpec) -> bool:
    return len(spec.shape) == IMAGE_RANK and spec.dtype in FLOATS and spec.contiguous


def _find_levels(graph: Graph) -> dict[str, int]:
    """Return the level of each node that follows layouts: how often a path to it has left such nodes and come back. Nodes of one level
    have no others between them.
    """
    levels: dict[str, int] = {}
    of_values: dict[str, tuple[int, bool]] = {}  # level, and whether a node that follows layouts made it
    for node in graph.nodes:
        follows = follows_layout(graph, node)
        before = [of_values.get(v, (0, False)) for v in node.uses]
        level = max((n + (is_follower and not follows) for n, is_follower in before), default=0)
        if follows:
            levels[node.name] = level
        of_values |= {v.name: (level, follows) for v in node.outputs if v is not None}
    return levels


class _Leaders:
    """Disjoint sets by name."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def find(self, name: str) -> str:
        root = name
        while (parent := self._parents.get(root, root)) != root:
            root = parent
        self._parents[name] = root
        return root

    def join(self, first: str, second: str) -> None:
        self._parents[self.find(first)] = self.find(second)
