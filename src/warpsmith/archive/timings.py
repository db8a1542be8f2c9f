"""The time of each unit alone, over the tasks of an archive: what a search learns settings from.

In: an archive, a target, when the run began, and the task that it is for. Out: one `TimedUnit` for each unit that was profiled in a
sound result of another task. Times are compared within a `group` alone: one region of one task on one machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import median

from sqlalchemy import select

from ..records import RegionProfile
from . import schema as s
from .exemplars import is_sound
from .reading import ArchiveReader

MOST = 4_000  # results that are read, the latest first: about a second


@dataclass(frozen=True, order=True)
class TimedUnit:
    """A technique at its settings, and the seconds of a call alone."""

    group: tuple[str, ...]
    family: str
    technique: str
    values: tuple[tuple[str, int], ...]
    flags: tuple[str, ...]
    seconds: float


def list_timed_units(
    archive: ArchiveReader, target: str, before: str = "", without: str = ""
) -> list[TimedUnit]:
    """`before`: judged before then (ISO 8601, UTC); `without`: not of this task."""
    r = s.results.c
    query = (
        select(r.task_id, r.environment_id, r.record)
        .where(r.target == target, is_sound(before), r.task_id != without)
        .order_by(r.number.desc())
        .limit(MOST)
    )
    with archive.database.transaction() as connection:
        rows = connection.execute(query).all()
    return once(u for row in rows for u in _units((row.task_id, row.environment_id), row.record))


def make_timed_unit(group: Iterable[str], seen: RegionProfile) -> TimedUnit:
    values, flags = tuple(sorted(seen.current_values.items())), tuple(sorted(seen.flags))
    return TimedUnit((*group, seen.region), seen.family, seen.technique, values, flags, seen.seconds)


def once(units: Iterable[TimedUnit]) -> list[TimedUnit]:
    """Merge what was measured more than once into its median, in an order that does not depend on theirs."""
    seconds: dict[TimedUnit, list[float]] = {}
    for u in units:
        seconds.setdefault(replace(u, seconds=0.0), []).append(u.seconds)
    return [replace(u, seconds=median(seconds[u])) for u in sorted(seconds)]


def _units(group: tuple[str, str], record: str) -> Iterable[TimedUnit]:
    """List the timed units of one result, without reading its builds and checks; none for a damaged one."""
    try:
        profile = json.loads(record).get("profile") or {}
        regions = [RegionProfile.model_validate(region) for region in profile.get("regions", ())]
    except (ValueError, AttributeError, TypeError):
        return
    for unit in (make_timed_unit(group, region) for region in regions):
        if unit.technique and unit.seconds > 0:
            yield unit
