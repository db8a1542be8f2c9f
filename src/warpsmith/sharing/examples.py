"""The examples that an archive has to teach, row by row: pairs, preferences and trajectories, each in its columns.

An archive comes in; examples go out, task by task in a fixed order. Only tasks that were never quarantined, and only what a
judge verified, enter; foreign kernels, which nobody here judged, never do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from ..archive.entries import Entry, RunRecord
from ..archive.reading import ArchiveReader
from ..archive.walking import list_judged_tasks
from ..records import Environment, Region, Task, Unit
from .files import Row
from .licenses import Licenses, join_licenses
from .prompts import fits, prompt
from .standing import correct, speedup, standings, strength
from .units import candidate_hash, candidate_text, code_hash, technique, unit_text


@dataclass(frozen=True)
class Example:
    row: Row
    task_id: str
    ties: frozenset[str]  # signatures of its regions, hashes of its units: what must not be in two splits
    key: str  # the same for two that differ in layout and comments only


def ties(entries: Iterable[Entry]) -> frozenset[str]:
    units = [u for entry in entries for u in entry.candidate.units]
    return frozenset(t for u in units for t in (u.region.signature, code_hash(u)))


@dataclass(frozen=True)
class Source:
    """`imported`: whether what another machine verified counts, too."""

    archive: ArchiveReader
    licenses: Licenses
    imported: bool = False

    @cached_property
    def quarantined(self) -> frozenset[str]:
        runs = (r for r in self.archive.runs() if r.admission is not None and not r.admission.admitted)
        return frozenset(r.task_id for r in runs)

    @cached_property
    def _environments(self) -> dict[str, Environment | None]:
        return {}

    def groups(self) -> Iterator[tuple[Task, list[Entry]]]:
        """The entries that count of one task, on one target and machine."""
        for task_id, target in list_judged_tasks(self.archive):
            task = self.archive.task(task_id)
            if task is None or task_id in self.quarantined:
                continue
            for entries in standings(self.archive.results(task_id, target), self.imported):
                yield task, [e for e in entries if e.candidate.units and fits(task, e.candidate)]

    def about(self, task: Task, entry: Entry) -> Row:
        """The columns that every example has."""
        environment = self._environment(entry.result.environment)
        return {
            "task": task.name, "task_id": task.id, "target": entry.candidate.target,
            "license": self.licenses.find_license(entry.candidate.id, not entry.verified_here), "origin": entry.origin,
            "hardware": environment.hardware if environment else "unknown",
            "environment": entry.result.environment,
        }  # fmt: skip

    def _environment(self, environment_id: str) -> Environment | None:
        if environment_id not in self._environments:
            self._environments[environment_id] = self.archive.environment(environment_id)
        return self._environments[environment_id]


def pairs(source: Source) -> Iterator[Example]:
    """For each region of a task, on each machine, the unit of the best candidate that covers it."""
    for task, entries in source.groups():
        best: dict[str, tuple[Entry, Unit]] = {}
        for entry in sorted(filter(correct, entries), key=strength, reverse=True):
            for unit in entry.candidate.units:
                best.setdefault(unit.region.id, (entry, unit))
        for entry, unit in best.values():
            yield _pair(source, task, entry, unit)


def _pair(source: Source, task: Task, entry: Entry, unit: Unit) -> Example:
    ratio, timing, verdict = speedup(entry), entry.result.timing, entry.result.verdict
    assert timing is not None
    assert verdict is not None
    row = {
        "prompt": prompt(task, entry.candidate.target, (unit.region,)), "completion": unit_text(unit),
        "language": unit.language, "signature": unit.region.signature, "technique": technique(unit),
        "tunables": json.dumps(unit.values), "flags": " ".join(unit.flags), "speedup": ratio.median,
        "speedup_low": ratio.low, "speedup_high": ratio.high, "baseline": ratio.baseline,
        "limit_share": timing.limit_share, "confirmed": timing.confirmed, "labels": " ".join(verdict.labels),
        "candidate_id": entry.candidate.id, **source.about(task, entry),
    }  # fmt: skip
    key = f"{entry.candidate.target} {code_hash(unit)}"
    return Example(row, task.id, frozenset({unit.region.signature, code_hash(unit)}), key)


def preferences(source: Source) -> Iterator[Example]:
    """Between candidates for the same regions of a task on one machine. Each correct one is preferred to the fastest that
    is surely slower; each failure is the worse of a pair with its parent, or else with the best.
    """
    for task, entries in source.groups():
        covers: dict[tuple[str, ...], list[Entry]] = {}
        for entry in entries:
            covers.setdefault(tuple(u.region.id for u in entry.candidate.units), []).append(entry)
        for alike in covers.values():
            yield from _pick_preferred(source, task, alike)


def _pick_preferred(source: Source, task: Task, entries: list[Entry]) -> Iterator[Example]:
    good = sorted(filter(correct, entries), key=strength, reverse=True)
    for entry in good:
        slower = [e for e in good if surely_faster(entry, e)]
        if slower:
            fastest = max(slower, key=lambda e: speedup(e).median)
            yield _preference(source, task, entry, fastest, "faster")
    by_id = {e.candidate.id: e for e in good}
    for entry in entries:
        if entry.result.status != "ok" and good:
            parents = [by_id[p] for p in entry.candidate.lineage.parents if p in by_id]
            yield _preference(source, task, (parents or good)[0], entry, "correct")


def surely_faster(one: Entry, other: Entry) -> bool:
    """Over the same baseline, and the intervals do not touch."""
    own_ratio = speedup(one)
    rival_ratio = other.result.timing.ratio(own_ratio.baseline) if other.result.timing is not None else None
    return rival_ratio is not None and own_ratio.low > rival_ratio.high


def _preference(source: Source, task: Task, better: Entry, worse: Entry, reason: str) -> Example:
    regions: tuple[Region, ...] = tuple(u.region for u in better.candidate.units)
    ratio = speedup(better)
    rival_ratio = (
        worse.result.timing.ratio(ratio.baseline) if reason == "faster" and worse.result.timing else None
    )
    licenses = {source.about(task, e)["license"] for e in (better, worse)}
    row = {
        "prompt": prompt(task, better.candidate.target, regions), "chosen": candidate_text(better.candidate),
        "rejected": candidate_text(worse.candidate), "reason": reason, "chosen_speedup": ratio.median,
        "chosen_low": ratio.low, "rejected_speedup": rival_ratio.median if rival_ratio else 0.0,
        "rejected_high": rival_ratio.high if rival_ratio else 0.0, "rejected_status": worse.result.status,
        "rejected_error": worse.result.reason, "baseline": ratio.baseline,
        "signatures": "\n".join(dict.fromkeys(r.signature for r in regions)),
        "chosen_id": better.candidate.id, "rejected_id": worse.candidate.id, **source.about(task, better),
        "license": join_licenses(licenses),
        "origin": "imported" if "imported" in (better.origin, worse.origin) else "local",
    }  # fmt: skip
    hashes = candidate_hash(better.candidate), candidate_hash(worse.candidate)
    key = f"{better.candidate.target} {hashes[0]} {hashes[1]}"
    return Example(row, task.id, ties([better, worse]), key)


def trajectories(source: Source) -> Iterator[Example]:
    """Runs, oldest first, with everything that each judged."""
    for run in reversed(source.archive.runs()):
        if run.task_id in source.quarantined or not (source.imported or run.origin == "local"):
            continue
        task, entries = source.archive.task(run.task_id), source.archive.run_entries(run.run_id)
        if task is not None and entries:
            yield _trajectory(source, task, run, entries)


def _trajectory(source: Source, task: Task, run: RunRecord, entries: list[Entry]) -> Example:
    best, steps = 0.0, []
    for entry in entries:
        best = max(best, reward(entry))
        steps.append(_step(entry) | {"best": best})
    signatures = dict.fromkeys(u.region.signature for e in entries for u in e.candidate.units)
    licenses = {source.about(task, e)["license"] for e in entries}
    row = {
        "prompt": prompt(task, run.target), "run_id": run.run_id, "seed": run.seed,
        "outcome": run.summary.status if run.summary else "unfinished", "reward": best, "steps": steps,
        "signatures": "\n".join(signatures), **source.about(task, entries[0]),
        "license": join_licenses(licenses), "origin": run.origin,
    }  # fmt: skip
    key = " ".join([task.id, run.target, *(candidate_hash(e.candidate) for e in entries)])
    return Example(row, task.id, ties(entries), key)


def reward(entry: Entry) -> float:
    """Lower end of the speedup's interval over the fastest baseline: 0 for what is not correct."""
    return speedup(entry).low if correct(entry) else 0.0


def _step(entry: Entry) -> Row:
    candidate, lineage, hypothesis = entry.candidate, entry.candidate.lineage, entry.hypothesis
    return {
        "number": entry.number, "kind": entry.kind, "candidate_id": candidate.id,
        "parents": " ".join(lineage.parents), "operator": lineage.operator, "agent": lineage.agent,
        "model": lineage.model,
        "hypothesis": f"{hypothesis.family} {hypothesis.technique}" if hypothesis else lineage.reason,
        "evidence": "\n".join(hypothesis.evidence) if hypothesis else "", "source": candidate_text(candidate),
        "tunables": json.dumps([u.values for u in candidate.units]), "status": entry.result.status,
        "feedback": entry.result.reason, "speedup": speedup(entry).median if correct(entry) else 0.0,
        "reward": reward(entry), "elapsed": entry.elapsed, "usd": lineage.cost_usd,
    }  # fmt: skip


KINDS: dict[str, Callable[[Source], Iterator[Example]]] = {
    "pairs": pairs,
    "preferences": preferences,
    "trajectories": trajectories,
}
