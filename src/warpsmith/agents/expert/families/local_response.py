"""Local response normalisation: each element divided by a power of the mean square of its channel's neighbours
(Krizhevsky, Sutskever and Hinton 2012).

In: a graph in which torch has written it out: squares, a view with a dimension of one, zeros around the channels, an
average pool over them, the view back, then the pointwise rest. Out: its region and a unit that keeps a window of
channels in the first-level cache. Every window is summed anew, so that an infinity leaves with its channel.
"""

from __future__ import annotations

from collections.abc import Collection

from ....kernels.templates import render
from ....records import Graph, Node, Region
from ...facts import Facts
from ..axes import base_name
from ..emit.text import Writer
from ..ops import FLOATS, option
from .anchored import Anchor, AnchoredFamily, Core
from .base import Technique, stream_tunable, tunable, vector_tunable

POOLS = {"avg_pool2d": 2, "avg_pool3d": 3}
LARGEST_WINDOW = 32  # channels; more of them leave the first-level cache

_VIEWS = ("view", "reshape", "_unsafe_view", "squeeze")


class LocalResponse(AnchoredFamily):
    name = "local_response"

    def covers(self, graph: Graph, node: Node) -> bool:
        return base_name(node) in POOLS and _pattern(graph, node) is not None

    def supports(self, graph: Graph, node: Node) -> bool:
        core = _pattern(graph, node)
        if core is None or not 1 <= _window(node)[0] <= LARGEST_WINDOW:
            return False
        return graph.specs[core.value].dtype in FLOATS and graph.specs[core.reads[0]].dtype in FLOATS

    def core(self, graph: Graph, node: Node, within: Collection[str]) -> Core:
        found = _pattern(graph, node)
        return super().core(graph, node, within) if found is None else found

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        if self.anchor(graph, region) is None:
            return []
        why = "walks the channels with a window of them in the first-level cache: everything is read and written once"
        tunables = (
            vector_tunable(facts),
            tunable("TILE", 1024, 256, 4096),
            stream_tunable(graph, region, facts),
        )
        return [Technique("window", why, "memory", tunables)]

    def helpers(self, anchor: Anchor, technique: Technique) -> str:
        rank = len(anchor.graph.specs[anchor.value].shape)
        lines = " * ".join(f"out0_shape[{d}]" for d in range(2, rank - 1)) or "1"
        size = _window(anchor.node)[0]
        return render("lrn/cpu/constants.h", size=size, ahead=(size - 1) // 2, last=rank - 1, lines=lines)

    def body(self, w: Writer, anchor: Anchor, technique: Technique) -> str:
        rank = len(anchor.graph.specs[anchor.value].shape)
        w.paste(render("lrn/cpu/channel_window.h", index=_index(rank)))
        width = f"(uint64_t)(out0_shape[{rank - 1}] + VEC)"
        size = _window(anchor.node)[0]
        return f"(uint64_t)THREADS * {size + 1} * ({width} > TILE ? {width} : TILE) * sizeof(float)"


def _index(rank: int) -> str:
    """The index of a line of channel c: the dimensions between channels and the last one from `first + line`."""
    middle = []
    for d in range(2, rank - 1):
        below = " * ".join(f"out0_shape[{k}]" for k in range(d + 1, rank - 1))
        quotient = f"(first + line) / ({below})" if below else "(first + line)"
        middle.append(f"{quotient} % out0_shape[{d}]" if d > 2 else quotient)
    return ", ".join(["task / GROUPS", "c", *middle, "0"])


def _window(node: Node) -> list[int]:
    sizes = node.args[1]
    return [int(n) for n in sizes] if isinstance(sizes, list | tuple) else [int(sizes)]


def _pattern(graph: Graph, node: Node) -> Core | None:
    """view → zeros around the channels → pool → view, each used once and for this alone."""
    spread = POOLS.get(base_name(node), 0)
    window = _window(node)
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
    apart = (n.output.name for n in (widen, pad))
    if not narrow or len(shape) < 3 or any(len(graph.users[v]) != 1 or v in graph.returned for v in apart):
        return None
    if graph.specs[widen.output.name].shape[:3] != (shape[0], 1, shape[1]):
        return None
    nodes = (widen.name, pad.name, node.name, *(n.name for n in narrow))
    return Core(nodes, narrow[-1].output.name, (widen.uses[0],))


def _back(graph: Graph, value: str, shape: tuple[int, ...]) -> list[Node]:
    """The views that follow a value, up to the last that has this shape; none where there is none."""
    found: list[Node] = []
    while True:
        users = graph.users[value]
        if len(users) != 1 or value in graph.returned or base_name(users[0]) not in _VIEWS:
            break
        found.append(users[0])
        value = users[0].output.name
    while found and found[-1].output.spec.shape != shape:
        found.pop()
    return found


def _is_plain(node: Node) -> bool:
    """Stride 1 and no padding of its own, so that every window counts all its elements."""

    def every(position: int, name: str, value: int) -> bool:
        given = option(node, position, name, [])
        return all(n == value for n in (given if isinstance(given, list | tuple) else [given]))

    if (
        option(node, 4, "ceil_mode", False) is not False
        or option(node, 6, "divisor_override", None) is not None
    ):
        return False
    given = option(node, 2, "stride", [])  # none: as long as the window
    return given != [] and every(2, "stride", 1) and every(3, "padding", 0)


def _pads(pad: Node, spread: int, size: int) -> bool:
    """Zeros before and after the channels, which are the first dimension that is pooled: as torch puts them."""
    widths = [int(n) for n in pad.args[1]]
    zero = option(pad, 2, "value", 0)
    own = widths[2 * (spread - 1) :]
    return zero == 0 and not any(widths[: 2 * (spread - 1)]) and own == [size // 2, (size - 1) // 2]
