"""The lineage of a run's candidates as rows: parents before children, indented below the first parent, each with its parents in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..wording import interval
from .blocks import TreeNode

MAX_DEPTH = 5  # of the indentation; the words name the parents


@dataclass(frozen=True)
class TreeRow:
    depth: int
    on_path: bool  # the way to the winner
    number: int
    outcome: str
    label: str
    origin: str  # operator and parents


def list_rows(nodes: Sequence[TreeNode]) -> list[TreeRow]:
    order = _sort_depth_first(nodes)
    depths, numbers = _find_depths(order), {n.candidate_id: n.number for n in nodes}
    return [_make_row(node, depths[node.candidate_id], numbers) for node in order]


def _make_row(node: TreeNode, depth: int, numbers: dict[str, int]) -> TreeRow:
    parents = " and ".join(f"#{numbers[p]}" for p in node.parents if p in numbers)
    origin = f"{node.operator} of {parents}" if parents else node.operator
    outcome = interval(node.ratio) if node.ratio is not None else node.status
    return TreeRow(min(depth, MAX_DEPTH), node.on_path, node.number, outcome, node.label, origin)


def _sort_depth_first(nodes: Sequence[TreeNode]) -> list[TreeNode]:
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


def _find_depths(order: Sequence[TreeNode]) -> dict[str, int]:
    depth: dict[str, int] = {}
    for node in order:
        depth[node.candidate_id] = next((depth[p] + 1 for p in node.parents if p in depth), 0)
    return depth
