"""The one place that decides what counts: which result of a kernel stands, which kernel of a task is shown, and its outcome in a word.

It is the archive's rule for winners, by machine instead of by environment. The latest confirmation or failure of a kernel stands. Without
either its latest correct result is shown, and without that its latest screening. A failure of the judge itself says nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..archive import Entry
from ..records import UNEXPLAINED, Ratio
from ..records.intervals import find_worth, is_unknown
from ..wording import hardware
from .merging import TaskRecords

Outcome = Literal[
    "win", "no win", "loss", "unconfirmed", "unexplained", "too noisy", "screened", "failed", "quarantined", "nothing judged"
]  # fmt: skip
UNKNOWN_MACHINE = "unknown machine"


@dataclass(frozen=True)
class Standing:
    """A row of the leaderboard: the best kernel of a task on a machine, or why there is none."""

    target: str
    machine: str
    outcome: Outcome
    entry: Entry | None  # the result that stands
    kernels: int  # judged here, by content
    failed: int  # of these
    reason: str = ""


def find_standing(entries: Sequence[Entry]) -> Entry | None:
    """Return the result that stands, of results of one kernel on one machine, oldest first. Where some are local, imported ones
    take no part.
    """
    judged = [e for e in entries if e.result.status != "error"]
    judged = [e for e in judged if e.verified_here] or judged
    tiers = (
        [e for e in judged if _is_decisive(e)],
        [e for e in judged if e.result.status == "ok"],
        judged,
        entries,
    )
    return next((tier[-1] for tier in tiers if tier), None)


def find_outcome(entry: Entry, admitted: bool) -> Outcome:
    """Say in a word what a result that stands is worth."""
    result = entry.result
    if not admitted:
        return "quarantined"
    if result.status == "screened":
        return "screened"
    if result.status != "ok" or result.speedup is None:
        return "failed"
    if result.speedup.low > 1.0:
        return _find_outcome_of_faster(entry)
    if is_unknown(result.speedup):
        return "too noisy"
    return "loss" if result.speedup.high < 1.0 else "no win"


def rank(entry: Entry) -> tuple[bool, bool, bool, float]:
    """Order results that stand: correct, then confirmed, then screened, then by the low end of the interval."""
    result = entry.result
    correct = result.status == "ok"
    return (
        correct,
        correct and entry.result.confirmed,
        result.status == "screened",
        find_worth(result.promise),
    )


def find_machine(entry: Entry, records: TaskRecords) -> str:
    """Name the machine of a result."""
    environment = records.environments.get(entry.result.environment)
    return hardware(environment) if environment is not None else UNKNOWN_MACHINE


def list_standing_entries(entries: Iterable[Entry]) -> list[Entry]:
    """List the result that stands of each kernel, best first. Kernels of one content are one kernel."""
    contents: dict[str, list[Entry]] = {}
    for entry in entries:
        contents.setdefault(entry.candidate.content_key, []).append(entry)
    standing = [s for same in contents.values() if (s := find_standing(same)) is not None]
    return sorted(standing, key=lambda e: (*(-float(part) for part in rank(e)), e.candidate.id))


def list_standings(records: TaskRecords) -> list[Standing]:
    """List the rows of a task: one for each target and machine."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for merged in records.runs:
        groups.setdefault((merged.run.target, hardware(merged.run.environment)), [])
    for entry in records.entries:
        groups.setdefault((entry.candidate.target, find_machine(entry, records)), []).append(entry)
    return [_make_standing(*key, group, records.admitted) for key, group in sorted(groups.items())]


def get_ratios(entry: Entry) -> tuple[Ratio, ...]:
    """Return the measured speedups of a correct result, over each baseline."""
    timing = entry.result.timing
    return timing.ratios if timing is not None and entry.result.status == "ok" else ()


def _make_standing(target: str, machine: str, entries: list[Entry], admitted: bool) -> Standing:
    standing = list_standing_entries(entries)
    if not standing:
        return Standing(target, machine, "nothing judged" if admitted else "quarantined", None, 0, 0)
    failed = [e for e in standing if not e.result.passed]
    best = standing[0]
    reason = ""
    if best in failed:
        reason = Counter(f"{e.result.status}: {e.result.reason}" for e in failed).most_common(1)[0][0]
    return Standing(target, machine, find_outcome(best, admitted), best, len(standing), len(failed), reason)


def _is_decisive(entry: Entry) -> bool:
    status = entry.result.status
    return (entry.result.confirmed and status == "ok") or status not in ("ok", "screened", "error")


def _find_outcome_of_faster(entry: Entry) -> Outcome:
    verdict = entry.result.verdict
    if verdict is not None and UNEXPLAINED in verdict.labels:
        return "unexplained"
    return "win" if entry.result.confirmed else "unconfirmed"
