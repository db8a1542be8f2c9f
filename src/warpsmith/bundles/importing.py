"""Imports results of a bundle into an archive: tasks, candidates with their lineage, every result with its environment.

In: the folder that `bundle run` wrote. Out: one run for each task and machine in the archive, in the order of the journal. It goes in the way another
archive's export does, marked imported: such results count as unverified until the candidates are judged here. With the key that
sealed both the bundle and every line of the results they count as our own judge's on that machine. Importing twice, or after
more was judged, adds only what is new.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from ..agents.base import Attempt
from ..archive import Archive, import_jsonl
from ..archive.entries import Kind, RunRecord
from ..archive.transfer import FORMAT
from ..pipeline import best_of
from ..records import TOO_BUSY, Environment, Record, Result, RunSummary, Task, content_hash
from ..records.result import NO_WIN_QUARANTINED
from ..search.confirmation import explain_noise
from .bundle import Bundle, read_bundle
from .journal import ROWS, ResultRow, TaskRow, read_rows
from .running import COPY
from .standing import Standing, check_rows

KINDS: dict[str, Kind] = {"search": "search", "canary": "search", "confirmation": "confirmation"}


@dataclass(frozen=True)
class Imported:
    """The outcome of an import. `runs`: by their id in the archive; a task that is not finished has no summary."""

    new_results: int
    trusted: bool
    runs: dict[str, RunRecord]
    drift: dict[str, str]  # canary id → how its second measurement compares


@dataclass(frozen=True)
class _Part:
    """The results of one task on one machine, as a run."""

    run: RunRecord
    results: tuple[ResultRow, ...]


def import_results(archive: Archive, folder: Path, key: bytes | None = None, confirm: int = 3) -> Imported:
    """Import the results in a folder. `confirm` as it was set where the bundle ran: it decides when a task is finished.

    Raises BundleError for what is damaged or not sealed with the key, ArchiveError as the archive does.
    """
    bundle = read_bundle(folder / COPY, key)
    rows = read_rows(folder, bundle.root, key)
    check_rows(bundle, rows, folder / ROWS)
    environments = {r.environment.id: r.environment for r in rows if isinstance(r, TaskRow)}
    standings = {i: Standing(bundle, rows, i, confirm) for i in environments}
    parts = [
        _make_part(bundle, task, environments[i], opening, standing)
        for i, standing in standings.items()
        for task in bundle.tasks.values()
        if (opening := standing.find_opening(task.id)) is not None
    ]
    new_results = _add(archive, bundle, parts)
    for part in parts:
        if part.run.summary is not None and archive.run(part.run.run_id).summary is None:
            archive.note_run(part.run.run_id, part.run.baselines, part.run.limit)
            archive.finish_run(part.run.summary)  # the run came in before, unfinished
        for row in part.results if key else ():
            candidate = bundle.candidates[row.result.candidate_id]
            archive.add_result(part.run.run_id, candidate, row.result, kind=KINDS[row.phase])
    drift = {c: text for standing in standings.values() for c, text in standing.measure_drift().items()}
    return Imported(new_results, key is not None, {p.run.run_id: p.run for p in parts}, drift)


def _make_part(
    bundle: Bundle, task: Task, environment: Environment, opening: TaskRow, standing: Standing
) -> _Part:
    """Make the run of one task on one machine. Its id is the same at each import."""
    limit = standing.find_limit(task.id)
    baselines = tuple(b.restate(limit) for b in opening.baselines) if limit is not None else opening.baselines
    settings = {"bundle": bundle.root, "environment": environment.id, "task": task.id}
    run = RunRecord(
        run_id=content_hash(settings)[:12], task_id=task.id, task_name=task.name, target=bundle.manifest.target,
        seed=opening.seed, config=settings, environment=environment, started_at=standing.find_start(task.id),
        baselines=baselines, limit=limit, admission=opening.admission, origin="imported",
    )  # fmt: skip
    results = tuple(r for r in standing.results if r.result.task_id == task.id)
    if standing.is_done(task.id):
        at = results[-1].result.judged_at if results else opening.at
        summary = _summarize(bundle, run, opening, standing, results)
        run = run.model_copy(update={"summary": summary, "finished_at": at})
    return _Part(run, results)


def _summarize(
    bundle: Bundle, run: RunRecord, opening: TaskRow, standing: Standing, results: Sequence[ResultRow]
) -> RunSummary:
    fastest = standing.find_fastest_confirmed(run.task_id)
    confirmation = standing.find_confirmation(fastest) if fastest is not None else None
    attempt = (
        Attempt(fastest, confirmation, None) if fastest is not None and confirmation is not None else None
    )
    firsts = [r for c in bundle.candidates_of(run.task_id) if (r := standing.find_first(c)) is not None]
    status, reason = _conclude(opening, firsts, confirmation)
    return RunSummary(
        run_id=run.run_id, task=run.task_name, target=run.target, status=status, reason=reason,
        best=best_of(attempt.restate(run.limit) if run.limit else attempt) if attempt is not None else None,
        baselines={b.name: b.median_us for b in opening.baselines if b.ok}, evaluations=len(firsts),
        stages=dict(Counter(r.status for r in firsts)),
        seconds=round(sum(sum(r.result.seconds.values()) for r in results), 2),
        limit_us=run.limit.seconds * 1e6 if run.limit is not None else 0.0,
        peaks=run.limit.peaks if run.limit is not None else None, seed=opening.seed,
        stopped="every candidate of the bundle was judged",
        admitted=opening.admission is None or opening.admission.admitted, hardware=run.environment.hardware,
    )  # fmt: skip


def _conclude(
    opening: TaskRow, firsts: Sequence[Result], confirmation: Result | None
) -> tuple[Literal["win", "no-win", "too-busy", "failed"], str]:
    """Conclude status and reason as a run on this machine would."""
    if opening.reason:
        return "failed", opening.reason
    if not any(r.status == "ok" for r in firsts):
        return (
            "failed",
            f"nothing valid was produced: {firsts[0].reason}" if firsts else "no candidate was in the bundle",
        )
    if confirmation is None:
        return "failed", "no candidate passed the confirmation"
    if opening.admission is not None and not opening.admission.admitted:
        return "no-win", NO_WIN_QUARANTINED
    if confirmation.win:
        return "win", ""
    if noise := explain_noise(confirmation):
        return TOO_BUSY, f"the machine was too busy to confirm anything: {noise}"
    return "no-win", "no candidate is faster than the best baseline with its interval above 1"


def _add(archive: Archive, bundle: Bundle, parts: Sequence[_Part]) -> int:
    """Import all parts or none, through the archive's export format; return the number of new results."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for line in _export_lines(bundle, parts):
                file.write(json.dumps(line) + "\n")
        return import_jsonl(archive, path).new_results


def _export_lines(bundle: Bundle, parts: Sequence[_Part]) -> Iterator[dict[str, Any]]:
    yield {"kind": "header", "format": FORMAT}
    for part in parts:
        yield _export_line("environment", part.run.environment)
    for kind, records in (
        ("task", bundle.tasks),
        ("hypothesis", bundle.hypotheses),
        ("candidate", bundle.candidates),
    ):
        for record in records.values():
            yield _export_line(kind, record)
    for part in parts:
        yield {"kind": "run", "id": part.run.run_id, "record": part.run.model_dump(mode="json")}
        started = datetime.fromisoformat(part.run.started_at)
        for number, row in enumerate(part.results, 1):
            yield _export_line("result", row.result)
            elapsed = (datetime.fromisoformat(row.result.judged_at) - started).total_seconds()
            position = {
                "run_id": part.run.run_id,
                "number": number,
                "result": row.result.id,
                "elapsed": elapsed,
            }
            yield {"kind": "place", "id": "", "record": {**position, "kind": KINDS[row.phase]}}


def _export_line(kind: str, record: Record) -> dict[str, Any]:
    return {"kind": kind, "id": record.id, "record": record.model_dump(mode="json")}
