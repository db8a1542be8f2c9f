"""What a policy may do: hand in a whole `ModelNew`, units for regions, or schedules of the expert's kernels.

In: an action, as nobody vouches for it. Out: something that can be judged, a candidate or the file of a solution; or why it cannot, which is
an outcome of its own and no error: a policy that writes nonsense is told so by its reward.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from pydantic import Field

from ..codegen.program import Unsupported
from ..errors import UsageError
from ..kernels.family import Family, Technique
from ..kernels.registry import family_of
from ..records import Candidate, Graph, Lineage, Record, Region, Task, Unit, content_hash
from ..records.candidate import EXPERT
from ..solutions.source import read_solution
from .answers import MAX_UNITS, Answer
from .regions import list_techniques, propose_regions, resolve

MAX_SOLUTION_CHARACTERS = 1 << 20
SOLUTION_FILE = "solution.py"
MAX_OFFERS = 64


class Schedule(Record):
    """One of the expert's kernels for a region, at values of its tunables; names that are left out keep their first value."""

    technique: str = Field(max_length=80)
    region: str = Field(default="", max_length=1000)  # a number of the proposed regions, nodes, or "all"
    values: dict[str, int] = Field(default={}, max_length=64)


class Action(Record):
    """Exactly one of the three."""

    solution: str = Field(default="", max_length=MAX_SOLUTION_CHARACTERS)  # a Python file with ModelNew
    units: tuple[Answer, ...] = Field(default=(), max_length=MAX_UNITS)  # for different regions
    schedules: tuple[Schedule, ...] = Field(default=(), max_length=MAX_UNITS)  # for different regions

    @property
    def length(self) -> int:
        """The characters that were written; a schedule has none."""
        return len(self.solution) + sum(len(u.source) for u in self.units)


class ScheduleOffer(Record):
    """One technique for one region, and the values that its tunables may have, the first one first."""

    region: str  # what names it in a `Schedule`
    nodes: tuple[str, ...]
    technique: str
    why: str  # one line
    domains: dict[str, tuple[int, ...]]


class Entry(Record):
    """What became of an action: the candidate or solution to judge, or the problem."""

    candidate: str = ""  # id
    solution: str = ""  # hash of its text
    problem: str = ""  # one line
    length: int = 0  # characters


def offer_schedules(graph: Graph, target: str) -> tuple[ScheduleOffer, ...]:
    """List the techniques of the proposed regions, the most promising region first, that the expert can write for the target."""
    offers = []
    for number, region in enumerate(propose_regions(graph, target), 1):
        family = family_of(graph, region, target)
        for technique in list_techniques(graph, region, target):
            if family is not None and _write(family, graph, region, technique) is not None:
                domains = {t.name: _order_domain(t.value, t.domain) for t in technique.tunables}
                offers.append(
                    ScheduleOffer(
                        region=str(number), nodes=region.nodes, technique=technique.name, why=technique.why, domains=domains
                    )
                )  # fmt: skip
    return tuple(offers[:MAX_OFFERS])


def write_schedules(task: Task, target: str, schedules: tuple[Schedule, ...], author: str) -> Candidate:
    """Make a candidate of the expert's units. Raises UsageError, one line, for a schedule that does not exist."""
    proposals, units = propose_regions(task.graph, target), []
    covered: set[str] = set()
    for schedule in schedules:
        region = resolve(task.graph, schedule.region, proposals)
        if covered & set(region.nodes):
            raise UsageError("two schedules cover the same nodes: hand them in one by one")
        covered |= set(region.nodes)
        units.append(_write_schedule(task.graph, target, region, schedule))
    order = {node.name: position for position, node in enumerate(task.graph.nodes)}
    ordered = tuple(sorted(units, key=lambda u: order[u.region.nodes[0]]))
    lineage = Lineage(
        operator="given", agent="author", model=EXPERT, reason=f"scheduled by {author}"[:80], branch=" + ".join(u.technique for u in ordered)
    )  # fmt: skip
    return Candidate(task_id=task.id, target=target, units=ordered, lineage=lineage)


def keep_solution(text: str, cache: Path) -> str:
    """Keep a solution's text under its hash, and return that. Raises UsageError for what is no solution."""
    key = content_hash(text)
    path = find_solution(key, cache)
    if path.is_file():
        return key
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(f".{secrets.token_hex(4)}")
        aside.write_text(text, encoding="utf-8")
        try:
            read_solution(aside)
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)
    except UsageError as error:  # its path is nobody's business
        raise UsageError(str(error).replace(str(aside), SOLUTION_FILE)) from None
    except (OSError, UnicodeEncodeError) as error:
        raise UsageError(f"the solution cannot be kept: {error}") from error
    return key


def find_solution(key: str, cache: Path) -> Path:
    """Return the path of a solution's text by its hash."""
    return cache / "handed-in" / "solutions" / key / SOLUTION_FILE


def _write_schedule(graph: Graph, target: str, region: Region, schedule: Schedule) -> Unit:
    family = family_of(graph, region, target)
    techniques = {t.name: t for t in list_techniques(graph, region, target)}
    technique = techniques.get(schedule.technique)
    if family is None or technique is None:
        known = ", ".join(techniques) or "none"
        raise UsageError(f"there is no technique {schedule.technique[:40]!r} for {region.title}: {known}")
    domains = {t.name: t.domain for t in technique.tunables}
    for name, value in schedule.values.items():
        if value not in domains.get(name, ()):
            raise UsageError(
                f"{technique.name} takes no {name[:40]}={value}: {domains.get(name, 'no such tunable')}"
            )
    unit = _write(family, graph, region, technique.at(dict(schedule.values)))
    if unit is None:
        raise UsageError(f"{technique.name} cannot be written for {region.title} on this target")
    return unit


def _write(family: Family, graph: Graph, region: Region, technique: Technique) -> Unit | None:
    try:
        return family.write(graph, region, technique)
    except Unsupported:
        return None


def _order_domain(first: int, domain: tuple[int, ...]) -> tuple[int, ...]:
    return (first, *(value for value in domain if value != first))


__all__ = [
    "Action",
    "Entry",
    "Schedule",
    "ScheduleOffer",
    "find_solution",
    "keep_solution",
    "offer_schedules",
    "write_schedules",
]
