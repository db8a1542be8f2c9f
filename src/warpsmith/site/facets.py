"""Facets of a row of the leaderboard, by which people filter: level, family, dtype, label and so on.

In: a task's records and what stands on a machine. Out: name → values; a filter matches where one of the values is the one that is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..pages.safety import clip, show_controls
from ..records import Candidate, Task
from .standing import Standing

NAMES = ("outcome", "level", "family", "dtype", "label", "machine", "target")
SEPARATOR = "|"
MAX_VALUES = 12  # of one facet of a row
_LEVEL = re.compile(r"level[ _-]?(\d)\b", re.IGNORECASE)


def find_level(task: Task) -> str:
    """Name the level of a benchmark, from the suite's name or the path of the task's file; else the suite."""
    for text in (task.suite, task.source.path):
        match = _LEVEL.search(text)
        if match is not None:
            return f"level {match[1]}"
    return task.suite


def list_dtypes(task: Task) -> list[str]:
    """List the dtypes of the main shape's inputs, those of its data first."""
    inputs = sorted(task.graph.inputs, key=lambda i: i.role != "input")
    dtypes = dict.fromkeys(i.spec.dtype for i in inputs)
    floating = [d for d in dtypes if "float" in d]
    return (floating or list(dtypes))[:MAX_VALUES]


def list_families(candidate: Candidate) -> list[str]:
    """List the operator patterns of a kernel's units."""
    return list(dict.fromkeys(u.family or "given" for u in candidate.units))[:MAX_VALUES]


def find_facets(task: Task, standing: Standing) -> dict[str, str]:
    """Return each facet's values in one text, as a row's attribute holds them."""
    entry = standing.entry
    verdict = entry.result.verdict if entry is not None else None
    values: dict[str, Iterable[str]] = {
        "outcome": (standing.outcome,), "level": (find_level(task),), "dtype": list_dtypes(task), "machine": (standing.machine,),
        "family": list_families(entry.candidate) if entry is not None else (),
        "label": verdict.labels[:MAX_VALUES] if verdict is not None else (), "target": (standing.target,),
    }  # fmt: skip
    return {name: SEPARATOR.join(_fit(v) for v in values[name] if v) for name in NAMES}


def list_values(facets: Sequence[dict[str, str]]) -> dict[str, list[str]]:
    """List the values that each facet has in some row. One that is the same in all rows tells nothing apart, and is left out."""
    texts = {name: {row[name] for row in facets} for name in NAMES}
    values = {name: {v for text in texts[name] for v in text.split(SEPARATOR)} - {""} for name in NAMES}
    return {name: sorted(values[name]) for name in NAMES if len(texts[name]) > 1}


def _fit(value: str) -> str:
    return show_controls(clip(value, 80)).replace(SEPARATOR, "/")
