"""The lineage of a run's candidates as inline SVG: one row each in the order judged, indented below the
first parent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from types import MappingProxyType

from .blocks import TreeNode

ROW, STEP, LEFT, TOP = 24, 22, 14, 16  # pixels
LABEL_WIDTH = 620
DOTS: Mapping[str, str] = MappingProxyType(
    {"ok": "dot-ok", "screened": "dot-screened"}
)  # others are failures


def lineage_svg(nodes: Sequence[TreeNode]) -> str:
    """Lines run from parent to child (dashed from a second parent); the way to the winner stands out."""
    order = _depth_first(nodes)
    depth = _depths(order)
    positions = {
        n.candidate_id: (LEFT + STEP * depth[n.candidate_id], TOP + ROW * i) for i, n in enumerate(order)
    }
    on = {n.candidate_id for n in nodes if n.on_path}
    lines = [
        _edge(n, parent, k, positions, on)
        for n in order
        for k, parent in enumerate(n.parents)
        if parent in positions
    ]
    rows = [_node(n, *positions[n.candidate_id]) for n in order]
    width = max(x for x, _ in positions.values()) + LABEL_WIDTH
    height = TOP + ROW * len(order)
    view = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    drawn = "".join(sorted(lines)) + "".join(rows)
    return f'<svg class="tree" {view} role="img" aria-label="Lineage">{drawn}</svg>'


def _depth_first(nodes: Sequence[TreeNode]) -> list[TreeNode]:
    """Parents before children, each child below its first parent. A parent judged later than its child
    still counts.
    """
    ids = {n.candidate_id for n in nodes}
    children: dict[str, list[TreeNode]] = {}
    for node in nodes:
        first = next((p for p in node.parents if p in ids), "")
        children.setdefault(first, []).append(node)
    order: list[TreeNode] = []
    stack = list(reversed(children.get("", [])))
    while stack:
        node = stack.pop()
        order.append(node)
        stack += reversed(children.get(node.candidate_id, []))
    visited = {n.candidate_id for n in order}
    return order + [n for n in nodes if n.candidate_id not in visited]


def _depths(order: Sequence[TreeNode]) -> dict[str, int]:
    depth: dict[str, int] = {}
    for node in order:
        depth[node.candidate_id] = next((depth[p] + 1 for p in node.parents if p in depth), 0)
    return depth


def _edge(node: TreeNode, parent: str, k: int, place: dict[str, tuple[int, int]], on: set[str]) -> str:
    (x0, y0), (x1, y1) = place[parent], place[node.candidate_id]
    kind = ("on" if node.candidate_id in on and parent in on else "") + (" cross" if k else "")
    if k == 0:
        return f'<path class="{kind}" d="M{x0} {y0 + 5}V{y1 - 6}Q{x0} {y1} {x0 + 6} {y1}H{x1 - 5}"/>'
    bend = min(x0, x1) - 10
    return f'<path class="{kind}" d="M{x0 - 4} {y0}C{bend} {y0} {bend} {y1} {x1 - 5} {y1}"/>'


def _node(node: TreeNode, x: int, y: int) -> str:
    outcome = f"{node.speedup:.2f}×" if node.speedup else node.status
    kind = "dot-won" if node.on_path else DOTS.get(node.status, "dot-bad")
    weight = ' font-weight="600"' if node.on_path else ""
    tip = escape(f"{node.candidate_id}: {node.operator}, {node.status}")
    name = escape(node.label if len(node.label) <= 70 else node.label[:69] + "…")
    return (
        f'<g><title>{tip}</title><circle class="{kind}" cx="{x}" cy="{y}" r="5"/>'
        f'<text x="{x + 12}" y="{y + 4.5}"{weight}>{escape(outcome)}  {name} '
        f'<tspan class="soft" fill="#8a94a5">#{node.number} {escape(node.operator)}</tspan></text></g>'
    )
