"""Local response normalisation as torch writes it out: squares, a view with a dimension of one, zeros around the channels, an
average pool over them, the view back, then the pointwise rest.
"""

from __future__ import annotations

from collections.abc import Collection

from ...codegen.lowering.axis_relations import base_name
from ...codegen.lowering.op_builder import FLOATS, option
from ...records import Graph, Node
from ..anchored import AnchoredFamily, Core

POOLS = {"avg_pool2d": 2, "avg_pool3d": 3}
LARGEST_WINDOW = 32  # channels; more of them leave the first-level cache

_VIEWS = ("view", "reshape", "_unsafe_view", "squeeze")


class LrnPattern(AnchoredFamily):
    name = "local_response"

    def covers(self, graph: Graph, node: Node) -> bool:
        return base_name(node) in POOLS and match_lrn(graph, node) is not None

    def supports(self, graph: Graph, node: Node) -> bool:
        core = match_lrn(graph, node)
        if core is None or not 1 <= window_of(node)[0] <= LARGEST_WINDOW:
            return False
        return graph.specs[core.value].dtype in FLOATS and graph.specs[core.reads[0]].dtype in FLOATS

    def core(self, graph: Graph, node: Node, within: Collection[str]) -> Core:
        match = match_lrn(graph, node)
        return super().core(graph, node, within) if match is None else match


def window_of(node: Node) -> list[int]:
    """Channels of a window, then ones."""
    sizes = node.args[1]
    return [int(n) for n in sizes] if isinstance(sizes, list | tuple) else [int(sizes)]


def match_lrn(graph: Graph, node: Node) -> Core | None:
    """view → zeros around the channels → pool → view, each used once and for this alone."""
    spread = POOLS.get(base_name(node), 0)
    window = window_of(node)
    if len(window) != spread or any(n != 1 for n in window[1:]) or not _is_plain(node):
        return None
    pad = graph.producer.get(node.uses[0])
    if pad is None or base_name(pad) != "constant_pad_nd" or not _pads(pad, spread, window[0]):
        return None
    widen = graph.producer.get(pad.uses[0])
    if widen is None or base_name(widen) not in ("view", "reshape", "_unsafe_view", "unsqueeze"):
        return None
    shape = graph.specs[widen.uses[0]].shape
    narrow = _back(graph, node.output.name, shape)
    intermediates = (n.output.name for n in (widen, pad))
    if not narrow or len(shape) < 3 or not all(map(graph.is_read_once, intermediates)):
        return None
    if graph.specs[widen.output.name].shape[:3] != (shape[0], 1, shape[1]):
        return None
    nodes = (widen.name, pad.name, node.name, *(n.name for n in narrow))
    return Core(nodes, narrow[-1].output.name, (widen.uses[0],))


def _back(graph: Graph, value: str, shape: tuple[int, ...]) -> list[Node]:
    """The views that follow a value, up to the last that has this shape; none where there is none."""
    nodes: list[Node] = []
    while True:
        users = graph.users[value]
        if len(users) != 1 or value in graph.returned or base_name(users[0]) not in _VIEWS:
            break
        nodes.append(users[0])
        value = users[0].output.name
    while nodes and nodes[-1].output.spec.shape != shape:
        nodes.pop()
    return nodes


def _is_plain(node: Node) -> bool:
    """Stride 1 and no padding of its own, so that every window counts all its elements."""

    def every(position: int, name: str, value: int) -> bool:
        stride = option(node, position, name, [])
        return all(n == value for n in (stride if isinstance(stride, list | tuple) else [stride]))

    if (
        option(node, 4, "ceil_mode", False) is not False
        or option(node, 6, "divisor_override", None) is not None
    ):
        return False
    stride = option(node, 2, "stride", [])  # none: as long as the window
    return stride != [] and every(2, "stride", 1) and every(3, "padding", 0)


def _pads(pad: Node, spread: int, size: int) -> bool:
    """Zeros before and after the channels, which are the first dimension that is pooled: as torch puts them."""
    widths = [int(n) for n in pad.args[1]]
    zero = option(pad, 2, "value", 0)
    channel_widths = widths[2 * (spread - 1) :]
    return (
        zero == 0 and not any(widths[: 2 * (spread - 1)]) and channel_widths == [size // 2, (size - 1) // 2]
    )
