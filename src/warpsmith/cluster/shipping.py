"""Runs on the way between a worker's archive and the suite's: written as an export, and checked on arrival.

In: the lines that a worker sent, and which run it was asked to play. Out: an `ArrivedRun` in which everything was validated: the seal, each
record, that nothing but this run of this task is in it, that it was measured where the worker is. What does not fit is an
`Unsound`, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..archive.adopting import adopt_run
from ..archive.entries import RunRecord
from ..archive.incoming import PlacedResult, invalid
from ..archive.reading import ArchiveReader
from ..archive.store import Archive
from ..archive.transfer import export_run, import_text
from ..bundles.manifest import compute_digest, make_mac, same_seal
from ..errors import ArchiveError, JudgeError, WarpsmithError
from ..pipeline.suite import PlannedRun
from ..records import Candidate, Environment, Result, RunSummary, Task
from .messages import PlayJob

PURPOSE = "run"  # of seals of runs
KINDS = frozenset(
    ("header", "environment", "task", "hypothesis", "candidate", "result", "run", "place", "exchange", "lesson")
)  # fmt: skip
MAX_BYTES = 256 << 20  # of one run


class Unsound(WarpsmithError):
    """What a worker sent is not what it was asked for."""


@dataclass(frozen=True)
class ArrivedRun:
    """A run as a worker sent it, validated. `text`: its lines as they go into the suite's archive."""

    run: RunRecord
    task: Task
    candidates: dict[str, Candidate]
    results: dict[str, Result]  # by the id of their line
    text: str

    @property
    def wins(self) -> dict[str, Result]:
        """Results that would be winners: all that were confirmed."""
        return {i: r for i, r in self.results.items() if r.win and r.confirmed}


def write_export(archive: ArchiveReader, run_id: str) -> str:
    return export_run(archive, run_id)


def place_task(job: PlayJob, cache: Path) -> Path:
    """Return the path of the task's file on this machine: the driver's, where the same file is there; else a copy, at a place that is
    the same on each machine. Raises JudgeError where it cannot be written.
    """
    path = Path(job.path)
    try:
        if path.read_text() == job.text:
            return path
    except (OSError, UnicodeDecodeError):
        pass
    copy = cache / "sent-tasks" / compute_digest(job.text.encode())[:12] / path.name
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(job.text)
    except OSError as error:
        raise JudgeError(f"{copy} cannot be written: {error.strerror}") from error
    return copy


def load_known(archive: Archive, known: Iterable[str]) -> None:
    """Put what the driver knows into a worker's archive, as its own: finished runs are not played again, one that was begun goes on."""
    for text in known:
        lines = [json.loads(line) for line in text.splitlines()]
        for line in lines:
            if line["kind"] == "run":
                rename_archive(line["record"], archive.name)
        import_text(archive, write_lines(lines), "what the driver sent")
        for line in lines:
            if line["kind"] == "run":
                adopt_run(archive, line["id"])


def rename_archive(run: dict[str, Any], name: str) -> None:
    """Name this archive in a run's settings: they are what a later run with the same ones is known by."""
    if isinstance(run["config"].get("config"), dict):
        run["config"]["config"]["archive"] = name


def write_lines(lines: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def read_arrived(
    text: str, mac: str, asked: PlannedRun, source: str, environment: Environment, *,
    key: bytes | None = None, archive: str = "", ahead_s: float = 0.0, overrides: dict[str, Any] | None = None,
) -> ArrivedRun:  # fmt: skip
    """Validate a run that a worker sent. `source`: the task's text; `archive`: the name of the suite's; `ahead_s`: by how much
    the worker's clock is ahead of this machine's; `overrides`: of constants of the task's file. Raises Unsound.
    """
    if key is not None and not same_seal(mac, make_mac(key, PURPOSE, text)):
        raise Unsound("the run is not sealed with the key")
    if len(text) > MAX_BYTES:
        raise Unsound(f"the run is larger than {MAX_BYTES >> 20} MiB")
    try:
        lines = [json.loads(line) for line in text.splitlines()]
        records = {
            kind: [(str(line["id"]), line["record"]) for line in lines if line["kind"] == kind] for kind in KINDS - {"header"}
        }  # fmt: skip
        if foreign := {line["kind"] for line in lines} - KINDS:
            raise Unsound(f"it holds lines of another kind: {', '.join(map(str, sorted(foreign)))}")
        _name_by_content(records)
        run = _read_run(records["run"], asked, environment)
        task = _read_task(records["task"], run, source, overrides or {})
        candidates = {i: Candidate.model_validate(r) for i, r in records["candidate"]}
        results = {i: Result.model_validate(r) for i, r in records["result"]}
        positions = [PlacedResult.model_validate(r) for _, r in records["place"]]
    except ValidationError as error:
        raise Unsound(str(invalid("the run", error))) from error
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise Unsound(f"it is no export of a run ({type(error).__name__}: {error})") from error
    _check_results(candidates, results, positions, run)
    ids = iter([i for i, _ in records["result"]])
    for line in lines:
        if line["kind"] == "run":
            rename_archive(line["record"], archive)
            _set_clock(line["record"], ahead_s)
        elif line["kind"] == "result":
            line["id"] = next(ids)
    return ArrivedRun(run, task, candidates, results, write_lines(lines))


def _name_by_content(records: dict[str, list[tuple[str, Any]]]) -> None:
    """Give each result the hash of its content as its id, in its line and in its place: no id that is somebody else's can be claimed."""
    names = {i: Result.model_validate(r).id for i, r in records["result"]}
    records["result"] = [(names[i], r) for i, r in records["result"]]
    for _, record in records["place"]:
        record["result"] = names[record["result"]]


def _read_run(rows: list[tuple[str, Any]], asked: PlannedRun, environment: Environment) -> RunRecord:
    if len(rows) != 1:
        raise Unsound(f"it holds {len(rows)} runs, not the one that was asked for")
    run = RunRecord.model_validate(rows[0][1])
    if run.target != asked.target or (asked.seed is not None and run.seed != asked.seed):
        raise Unsound(f"it is of target {run.target} and seed {run.seed}, which were not asked for")
    datetime.fromisoformat(run.started_at)
    if run.environment != environment:
        raise Unsound("it was measured in another environment than the worker's")
    return run


def _read_task(rows: list[tuple[str, Any]], run: RunRecord, source: str, overrides: dict[str, Any]) -> Task:
    tasks = [Task.model_validate(r) for _, r in rows]
    if len(tasks) != 1 or tasks[0].id != run.task_id:
        raise Unsound("its task is not the one that was asked for")
    if tasks[0].source.text and tasks[0].source.text != source:
        raise Unsound("the source of its task is not the one that was sent")
    if tasks[0].variants[0].overrides != overrides:
        raise Unsound("the constants of its task are not those that were asked for")
    return tasks[0]


def _check_results(
    candidates: dict[str, Candidate],
    results: dict[str, Result],
    positions: Iterable[PlacedResult],
    run: RunRecord,
) -> None:
    """Raise Unsound where a result is of another task or environment, does not match its candidate, or is in no run."""
    judged = {p.result for p in positions if p.run_id == run.run_id and p.kind != "reused"}
    for result_id, result in results.items():
        candidate = candidates.get(result.candidate_id)
        if candidate is None or result.content_key != candidate.content_key:
            raise Unsound(f"result {result_id} does not match a candidate of it")
        if (result.task_id, result.target) != (
            run.task_id,
            run.target,
        ) or candidate.id != result.candidate_id:
            raise Unsound(f"result {result_id} is not of its task")
        if result_id in judged and result.environment != run.environment.id:
            raise Unsound(f"result {result_id} was measured in another environment than the worker's")


def _set_clock(run: dict[str, Any], ahead_s: float) -> None:
    """Write a run's times by this machine's clock, so that runs of all machines are in the order in which they were played."""
    for name in ("started_at", "finished_at"):
        if run.get(name) and ahead_s:
            moved = datetime.fromisoformat(run[name]) - timedelta(seconds=ahead_s)
            run[name] = moved.isoformat(timespec="microseconds")


def find_claim(arrived: ArrivedRun, summary: RunSummary) -> Result | None:
    """Find the result by which a run claims a win; None where it claims none. Raises Unsound for a win that no result shows."""
    if summary.run_id != arrived.run.run_id:
        raise Unsound(f"the summary is of run {summary.run_id}, not of {arrived.run.run_id}")
    if summary.status != "win":
        return None
    wins = [
        r
        for r in arrived.wins.values()
        if summary.best is not None and r.candidate_id == summary.best.candidate_id
    ]
    if not wins:
        raise Unsound("it claims a win that none of its results shows")
    return wins[-1]


def export_finished(archive: ArchiveReader, run: RunRecord) -> str:
    """Write a finished run without its results: enough to be known by. Empty where it cannot be read."""
    try:
        return export_run(archive, run.run_id, results=False)
    except ArchiveError:
        return ""
