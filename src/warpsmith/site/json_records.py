"""Records as the JSON files show them: as they are stored, without paths of this machine and without settings of runs."""

from __future__ import annotations

from typing import Any

from ..archive import Entry, RunRecord
from ..pages.safety import make_file_id
from ..records import Candidate, Ratio, Result, Task
from .merging import MergedRun, TaskRecords
from .standing import Standing, get_ratios


def dump_task(task: Task) -> dict[str, Any]:
    return {"id": task.id, **task.model_dump(mode="json", exclude={"source": {"export_file"}})}


def dump_candidate(candidate: Candidate) -> dict[str, Any]:
    return {"id": candidate.id, "content_key": candidate.content_key, **candidate.model_dump(mode="json")}


def dump_result(result: Result) -> dict[str, Any]:
    return {"id": result.id, **result.model_dump(mode="json", exclude={"builds": {"__all__": {"library"}}})}


def dump_run(run: RunRecord) -> dict[str, Any]:
    return run.model_dump(mode="json", exclude={"config": True, "facts": True, "summary": {"base_url"}})


def dump_entry(entry: Entry) -> dict[str, Any]:
    """Dump where a result comes from, and the result."""
    where = {
        "run_id": entry.run_id,
        "number": entry.number,
        "kind": entry.kind,
        "origin": entry.origin,
        "elapsed": entry.elapsed,
    }
    return {**where, "result": dump_result(entry.result)}


def dump_run_file(merged: MergedRun) -> dict[str, Any]:
    """Dump a run with its attempts; their records are in the files of the kernels."""
    attempts = [
        {
            "number": e.number, "kind": e.kind, "origin": e.origin, "elapsed": e.elapsed, "candidate": e.candidate.id,
            "result": e.result.id, "status": e.result.status, "reason": e.result.reason, "speedup": dump_ratio(e.result.speedup),
        }
        for e in merged.entries
    ]  # fmt: skip
    return {**dump_run(merged.run), "attempts": attempts}


def dump_standing(standing: Standing, records: TaskRecords) -> dict[str, Any]:
    """Dump a row of the leaderboard."""
    entry, task = standing.entry, records.task
    timing = entry.result.timing if entry is not None else None
    return {
        "task": task.id, "name": task.name, "target": standing.target, "machine": standing.machine,
        "outcome": standing.outcome, "kernel": entry.candidate.id if entry is not None else None,
        "confirmed": entry is not None and entry.result.confirmed, "imported": entry is not None and not entry.verified_here,
        "ratios": [r.model_dump(mode="json") for r in get_ratios(entry)] if entry is not None else [],
        "estimate": dump_ratio(timing.estimate) if timing is not None else None,
        "limit_share": timing.limit_share if entry is not None and timing is not None and get_ratios(entry) else None,
        "kernels": standing.kernels, "failed": standing.failed, "reason": standing.reason,
        "page": f"tasks/{make_file_id(task.id)}.html",
    }  # fmt: skip


def dump_ratio(ratio: Ratio | None) -> dict[str, Any] | None:
    return ratio.model_dump(mode="json") if ratio is not None else None
