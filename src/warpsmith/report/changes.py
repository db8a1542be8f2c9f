"""The claimed candidate against its first parent, source by source, and against the part of the reference that it replaces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from ..archive import Entry
from ..archive.reading import ArchiveReader
from ..pages.highlighting import join_sources, list_differences
from ..records import Node, Task, Unit
from ..wording import label
from .blocks import Change, Replaced

PLACE = re.compile(r"(.+?):(\d+)(?: in .*)?")  # "file.py:12 in forward"


def find_change(archive: ArchiveReader, entries: Sequence[Entry], best: Entry) -> Change | None:
    """Compare with the first parent; None for a seed, and where the archive does not hold the parent."""
    parents = best.candidate.lineage.parents
    ancestors = {c.id: c for c in archive.ancestors(best.candidate.id)} if parents else {}
    parent = next((ancestors[key] for key in parents if key in ancestors), None)
    if parent is None:
        return None
    lines = list_differences(join_sources(parent), join_sources(best.candidate))
    number = min((e.number for e in entries if e.candidate.id == parent.id), default=0)
    return Change(candidate_id=parent.id, label=label(parent), number=number, lines=tuple(lines))


def list_replaced(task: Task, best: Entry) -> tuple[Replaced, ...]:
    """List what each unit stands for, the one that takes longest first."""
    nodes, timing = {n.name: n for n in task.graph.nodes}, best.result.timing
    times = timing.unit_us if timing is not None else {}
    units = sorted(best.candidate.units, key=lambda u: -times.get(u.region.id, 0.0))
    return tuple(_describe(unit, nodes, task, times.get(unit.region.id, 0.0)) for unit in units)


def _describe(unit: Unit, nodes: dict[str, Node], task: Task, unit_us: float) -> Replaced:
    covered = [nodes[name] for name in unit.region.nodes if name in nodes]
    lines = sorted({number for node in covered if (number := _find_line(node, task))})
    return Replaced(
        technique=unit.technique or unit.family or "unit", operations=tuple(n.listing for n in covered), lines=tuple(lines),
        rewrite=tuple(n.listing for n in unit.rewrite.nodes) if unit.rewrite is not None else (), unit_us=unit_us,
    )  # fmt: skip


def _find_line(node: Node, task: Task) -> int:
    """Return the line of the task's file that a node comes from; 0: of another file, or not ancestors."""
    match = PLACE.fullmatch(node.where)
    if match is None or PurePath(match[1]).name != PurePath(task.source.path).name:
        return 0
    return int(match[2])
