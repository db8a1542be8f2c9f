"""The parts that a run left to ATen, and why, in the words of the user's module.

In: a task's graph, the confirmed attempt, all attempts, microseconds by node. Out: lines such as
"layers.*.self_attn: scaled_dot_product_attention stays a library call (31% of the reference's time)", the costliest first; one line where nothing
could be proposed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ..agents.base import Attempt
from ..codegen.lowering.axis_relations import VIEWS, base_name
from ..records import Graph, Node

MOST_LINES = 8
MOST_OPS = 5  # named in the line of what nothing can be proposed for
LEAST_SHARE = 0.01  # of the reference's time, below which a part is not worth a line
_LIBRARY = re.compile(r"conv|linear|mm$|matmul|bmm|addmm|attention|lstm|gru|rnn|embedding|cdist|fft")
_MOVES = VIEWS | {
    "clone",
    "_to_copy",
    "contiguous",
    "select",
    "slice",
    "split",
    "split_with_sizes",
    "unbind",
    "full",
    "arange",
}


def left_to_aten(
    graph: Graph, best: Attempt | None, attempts: Iterable[Attempt], node_us: Mapping[str, float]
) -> tuple[str, ...]:
    """A line for each part of the module that no kernel of the confirmed attempt covers."""
    covered = {n for u in best.candidate.units for n in u.region.nodes} if best is not None else set()
    tried = {n for a in attempts for u in a.candidate.units for n in u.region.nodes}
    total = sum(node_us.values())
    groups: defaultdict[tuple[str, str], list[Node]] = defaultdict(list)
    for node in graph.nodes:
        if node.name not in covered and base_name(node) not in _MOVES:
            groups[_place(node), _why(node, tried)].append(node)
    shares = {key: _share(nodes, node_us, total) for key, nodes in groups.items()}
    keys = [key for key in groups if not total or shares[key] >= LEAST_SHARE]
    keys.sort(key=lambda key: -shares[key])
    lines = [_line(*key, groups[key], shares[key]) for key in keys[:MOST_LINES]]
    return (*lines, *([f"and {len(keys) - MOST_LINES} smaller parts"] if len(keys) > MOST_LINES else []))


def explain_nothing_offered(graph: Graph, node_us: Mapping[str, float]) -> str:
    """A line with the operations that nothing can be proposed for, by name, the costliest first."""
    total = sum(node_us.values())
    by_op: defaultdict[str, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        if base_name(node) not in _MOVES:
            by_op[base_name(node)].append(node)
    shares = {op: _share(nodes, node_us, total) for op, nodes in by_op.items()}
    ops = sorted(shares, key=lambda op: -shares[op])
    named = [f"{op} ({shares[op]:.0%} of the time)" if total else op for op in ops[:MOST_OPS]]
    further = f" and {len(ops) - MOST_OPS} more" if len(ops) > MOST_OPS else ""
    return f"the expert has no kernel and no library alternative for {', '.join(named) or 'what only moves data'}{further}"


def _place(node: Node) -> str:
    """The submodule, layers of one kind together; the line of code where the module has no parts."""
    return re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", node.module) or node.where or "the module itself"


def _why(node: Node, tried: set[str]) -> str:
    if node.name in tried:
        return "a kernel was tried and is not faster"
    return "stays a library call" if _LIBRARY.search(base_name(node)) else "no kernel covers it"


def _share(nodes: Sequence[Node], node_us: Mapping[str, float], total: float) -> float:
    return sum(node_us.get(n.name, 0.0) for n in nodes) / total if total else 0.0


def _line(place: str, why: str, nodes: Sequence[Node], share: float) -> str:
    counts = Counter(base_name(n) for n in nodes)
    ops = ", ".join(f"{op} ({count} times)" if count > 1 else op for op, count in counts.most_common(3))
    suffix = f" and {len(counts) - 3} other operations" if len(counts) > 3 else ""
    time = f" ({share:.0%} of the reference's time)" if share else ""
    return f"{place}: {ops}{suffix}: {why}{time}"
