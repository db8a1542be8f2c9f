"""The best kernels that each author wrote for one task: what a later search on it begins with.

In: an archive, a task, a target, when the run began, whose kernels the run writes itself anyway. Out: candidates, the best of each author
first. Only sound results count: right, not outweighed since, of a task that was never quarantined.
"""

from __future__ import annotations

import json
from collections import Counter

from sqlalchemy import select

from ..records import Candidate, Lineage
from . import schema as s
from .exemplars import is_sound
from .reading import ArchiveReader
from .rows import load_candidate

MAX_PER_AUTHOR = 2
MAX_AUTHORED = 6


def list_authored(
    archive: ArchiveReader, task_id: str, target: str, before: str = "", without: str = ""
) -> list[Candidate]:
    """`before`: judged before then (ISO 8601, UTC), so that a run never adopts what it judged itself. `without`: the author whose kernels are left out."""
    r, c = s.results.c, s.candidates.c
    query = (
        select(c.id, c.content_key, c.lineage)
        .join(s.results, r.candidate_id == c.id)
        .where(r.task_id == task_id, r.target == target, is_sound(before))
        .order_by((r.origin == "local").desc(), (r.confirmed & r.win).desc(), r.speedup.desc(), r.number)
    )
    if before:
        query = query.where(r.judged_at != "")  # nobody knows when
    counts, keys, picked = Counter[str](), set[str](), list[tuple[int, int, str]]()
    with archive.database.transaction() as connection:
        for row in connection.execute(query):
            author = _read_author(row.lineage)
            if author in ("", without) or row.content_key in keys or counts[author] >= MAX_PER_AUTHOR:
                continue
            picked.append((counts[author], len(picked), row.id))
            counts[author] += 1
            keys.add(row.content_key)
            if len(picked) >= MAX_AUTHORED:
                break
        loaded = [load_candidate(connection, candidate_id) for _, _, candidate_id in sorted(picked)]
    return [candidate for candidate in loaded if candidate is not None]


def _read_author(lineage: str) -> str:
    """Empty for a damaged row."""
    try:
        return Lineage.model_validate(json.loads(lineage)).author
    except ValueError:
        return ""
