"""The speed of light: the least time that a graph, or a region of it, can take at this machine's peak rates.

In: a graph and `Peaks`. Out: `Limit`s, which name the peaks that they used. A floor that an honest kernel can beat would reject honest
work, so every choice errs towards less time: only bytes that must move count (a slice of an input, not the
whole), outputs may stay in the cache, rates are the best ever seen here. Arithmetic bounds what is reported
as the limit, not what is rejected: a rewrite may need fewer operations than the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...records import Graph, Limit, Node, Region, TensorSpec
from .peaks import Peaks

TOLERANCE = 0.10  # measured rates are this uncertain; a result is refused only beyond it

VIEWS = {
    "view", "_unsafe_view", "reshape", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand", "alias",
    "detach",
}  # fmt: skip
PARTIAL = {
    "slice", "select", "index_select", "embedding", "gather", "index", "narrow", "diagonal", "split",
    "split_with_sizes", "unbind", "as_strided", "unfold", "tril", "triu", "constant_pad_nd",
    "upsample_nearest2d", "grid_sampler_2d",
}  # fmt: skip
LOOKUPS = {"index_select", "embedding", "gather", "index"}  # by a tensor, whose entries may be equal
BAGS = {"embedding_bag", "_embedding_bag", "_embedding_bag_forward_only"}
ATTENTION = "scaled_dot_product_attention"
SPARSE_WINDOWS = ("conv", "pool")  # a stride beyond the window skips elements


def limit(graph: Graph, peaks: Peaks, cold: bool = True) -> Limit:
    """Speed-of-light floor of the whole graph. `cold`: the inputs start in main memory."""
    read = sum(_demand(graph, i.name, i.spec) for i in graph.inputs)
    written = graph.written_bytes
    rate = peaks.arithmetic({s.dtype for s in graph.specs.values()}, _convolves(graph.nodes))
    return _limit(read, written, graph.flops, peaks, cold, rate)


def region_limit(graph: Graph, region: Region, peaks: Peaks, cold: bool = False) -> Limit:
    """Floor of a region on its own: its inputs read once, its outputs written once."""
    inside = set(region.nodes)
    read = sum(_demand(graph, name, graph.specs[name], inside) for name in region.inputs)
    written = sum(graph.specs[name].nbytes for name in region.outputs)
    flops = sum(graph.by_name[n].flops for n in region.nodes)
    dtypes = {graph.specs[name].dtype for name in (*region.inputs, *region.outputs)}
    rate = peaks.arithmetic(dtypes, _convolves([graph.by_name[n] for n in region.nodes]))
    return _limit(read, written, flops, peaks, cold, rate)


def hard_floor(limit: Limit, graph: Graph | None = None) -> float:
    """Seconds below which a time is refused: what must move, at the measured rate, less its uncertainty. `graph`: what `limit` is of;
    keys and values that a mask may hide, and rows that an index may name again, are in the limit, but nothing is refused for
    leaving them out.
    """
    hidden = 0 if graph is None else count_hideable_bytes(graph)
    return (limit.least_bytes - hidden) / limit.bytes_per_second * (1 - TOLERANCE)


def count_hideable_bytes(graph: Graph) -> int:
    """Bytes of the inputs that values of other inputs may make unneeded."""
    return sum(
        _demand(graph, i.name, i.spec) - _demand(graph, i.name, i.spec, certain=True) for i in graph.inputs
    )


def _convolves(nodes: Sequence[Node]) -> bool:
    return any("conv" in node.op for node in nodes)


def _limit(read: int, written: int, flops: int, peaks: Peaks, cold: bool, rate: float) -> Limit:
    total = read + written
    seconds = total / peaks.bandwidth(total)
    if cold:  # inputs come from memory; outputs need only reach the cache
        seconds = max(seconds, (read + max(0, written - peaks.last_cache)) / peaks.memory)
    arithmetic = flops / rate
    return Limit(
        seconds=max(seconds, arithmetic), least_bytes=total, flops=flops, flops_per_second=rate,
        bytes_per_second=total / seconds if seconds > 0 else peaks.memory,
        bound="compute" if arithmetic > seconds else "memory", peaks=peaks.used,
    )  # fmt: skip


def _demand(
    graph: Graph, name: str, spec: TensorSpec, inside: set[str] | None = None, certain: bool = False
) -> int:
    """Bytes of a value that its users must read: all of it, unless every user takes a part. `certain`: whatever masks hide and however often
    an index names the same.
    """
    if name in graph.returned and inside is None and name not in graph.partial_updates:
        return spec.nbytes
    users = [n for n in graph.users[name] if inside is None or n.name in inside]
    return min(spec.nbytes, sum(_part(graph, node, name, spec, inside, certain) for node in users))


def _part(
    graph: Graph, node: Node, name: str, spec: TensorSpec, inside: set[str] | None, certain: bool
) -> int:
    kind = node.op.split(".")[1]
    outputs = [v for v in node.outputs if v is not None]
    if kind in VIEWS or (inside is None and _writes_into(graph, node, name)):
        return sum(_demand(graph, v.name, v.spec, inside, certain) for v in outputs)
    if certain and kind in LOOKUPS | BAGS and node.args[0] == {"v": name}:
        return 0
    if kind in BAGS and node.args[0] == {"v": name}:
        return graph.specs[node.args[1]["v"]].numel * (spec.nbytes // max(1, spec.shape[0]))
    if kind in PARTIAL:
        if kind in ("tril", "triu"):
            return spec.nbytes // 2
        return sum(v.spec.nbytes for v in outputs)
    if any(word in kind for word in SPARSE_WINDOWS) and node.args and node.args[0] == {"v": name}:
        return int(spec.nbytes * _window_share(graph, node, kind))
    if kind == ATTENTION and {"v": name} in node.args[1:3] and node.args[0] != {"v": name}:
        return int(spec.nbytes * _count_seen_share(graph, node, certain))
    return spec.nbytes


def _writes_into(graph: Graph, node: Node, name: str) -> bool:
    """Tell whether a node writes to parts of this value, as an update of an input: it need not read the rest."""
    is_writer = any(node in nodes for nodes in graph.partial_updates.values())
    return is_writer and node.args[0] == {"v": name}


def _count_seen_share(graph: Graph, node: Node, certain: bool) -> float:
    """Share of an attention's keys and values that some query sees; of a mask's contents the graph knows nothing."""
    if certain and _argument(node, 3, "attn_mask") is not None:
        return 0.0
    queries, keys = (graph.specs[a["v"]].shape[-2] for a in node.args[:2])
    return min(1.0, queries / max(1, keys)) if _argument(node, 5, "is_causal") else 1.0


def _argument(node: Node, position: int, name: str) -> Any:
    return node.kwargs.get(name, node.args[position] if len(node.args) > position else None)


def _window_share(graph: Graph, node: Node, kind: str) -> float:
    """Share of a convolution's or pool's input that its windows touch."""
    if "conv" in kind:
        window = list(graph.specs[node.args[1]["v"]].shape[2:])
        stride: Any = node.args[3] if len(node.args) > 3 else 1
    else:
        window = node.args[1] if len(node.args) > 1 and isinstance(node.args[1], list) else [1]
        stride = node.args[2] if len(node.args) > 2 and node.args[2] else window
    if not all(isinstance(s, int) for s in (stride if isinstance(stride, list) else [stride])):
        return 1.0
    strides = stride if isinstance(stride, list) and len(stride) == len(window) else [stride] * len(window)
    share = 1.0
    for size, step in zip(window, strides, strict=True):
        step = step[0] if isinstance(step, list) else step
        share *= min(1.0, size / step)
    return share
