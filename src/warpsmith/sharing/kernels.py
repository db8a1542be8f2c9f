"""An archive as a table in the columns the field knows, and ours: a row for each result, and one for each foreign kernel.

The archive in, a Parquet file out. `ws_records` holds the records themselves, each in the first row that needs it, so that
an import of the whole file restores every result with its task, candidate, hypothesis, environment and places in runs; the
other columns are views of them. Exchanges with models, lessons and runs without a result travel as JSON lines only.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..archive.entries import Entry, RunRecord
from ..archive.foreign import ForeignKernel, foreign_kernels
from ..archive.incoming import Licensed, PlacedResult, without_paths
from ..archive.reading import ArchiveReader
from ..archive.transfer import FORMAT, record_line
from ..archive.walking import every_entry, every_place
from ..records import Environment, Ratio, Record, Task
from .columns import ARCHIVE, FIELD
from .files import Row, write_rows
from .licenses import UNKNOWN, Licenses
from .units import candidate_text, listing, technique

_LEVEL = re.compile(r"level[_-]?(\d+)", re.IGNORECASE)
_NUMBER = re.compile(r"(\d{1,9})[_-]")
FOREIGN = dict(
    zip((c.name for c in FIELD), ForeignKernel.model_fields, strict=True)
)  # column → field, in the same order


def export_parquet(
    archive: ArchiveReader, path: Path, license: str = UNKNOWN, with_settings: bool = True
) -> int:
    """Write the archive to `path` and return the number of rows. `license` is of what was made here; what was imported
    keeps its own. Without settings, runs lose what may name servers and paths of their machine. Raises UsageError without pyarrow, ArchiveError when the file cannot be written.
    """
    return write_rows(path, ARCHIVE, Rows(archive, license, with_settings), "parquet")


class Rows:
    """Every row, in the order in which the results came in. To be gone through once."""

    def __init__(self, archive: ArchiveReader, license: str, with_settings: bool = True) -> None:
        self._archive, self._with_settings = archive, with_settings
        self._licenses = Licenses(archive, license)
        self._told: set[tuple[str, str]] = set()  # kind and id of records that an earlier row holds
        self._tasks: dict[str, Task] = {}
        self._graphs: dict[str, str] = {}  # task → its listing
        self._environments: dict[str, Environment | None] = {}
        self._runs: dict[str, RunRecord] = {run.run_id: run for run in archive.runs()}
        self._places: dict[str, list[PlacedResult]] = defaultdict(list)
        with archive.database.transaction() as connection:
            for record in every_place(connection):
                self._places[record.result].append(record)

    def __iter__(self) -> Iterator[Row]:
        for result_id, entry in every_entry(self._archive):
            task = self._task(entry.result.task_id)
            if task is not None:
                yield self._row(result_id, entry, task)
        for kernel in foreign_kernels(self._archive):
            license = self._licenses.find_foreign_license(kernel.id)
            lines = [record_line("foreign", kernel.id, kernel), *_license_line(kernel.id, license)]
            yield _whole(foreign_columns(kernel), license, lines)

    def _row(self, result_id: str, entry: Entry, task: Task) -> Row:
        records_placed = self._places[result_id]
        environment = self._environment(entry.result.environment)
        license = self._licenses.find_license(entry.candidate.id, entry.origin == "imported")
        runs = [self._runs[p.run_id] for p in records_placed]
        judged = next((self._runs[p.run_id] for p in records_placed if p.kind != "reused"), None)
        lines = [
            *self._once("environment", environment), *self._once("task", task),
            *self._once("hypothesis", entry.hypothesis), *self._once("candidate", entry.candidate),
            *self._license(entry, license),
            record_line("result", result_id, without_paths(entry.result)),
            *(line for run in runs for line in self._run(run)),
            *(record_line("place", "", record) for record in records_placed),
        ]  # fmt: skip
        views = _make_field_columns(entry, task, judged) | _make_own_columns(result_id, entry, environment)
        views["ws_graph"] = self._graphs[task.id]
        return _whole(views, license, lines)

    def _task(self, task_id: str) -> Task | None:
        if task_id not in self._tasks:
            task = self._archive.task(task_id)
            if task is None:
                return None
            self._tasks[task_id], self._graphs[task_id] = task, listing(task.graph)
        return self._tasks[task_id]

    def _environment(self, environment_id: str) -> Environment | None:
        if environment_id not in self._environments:
            self._environments[environment_id] = self._archive.environment(environment_id)
        return self._environments[environment_id]

    def _once(self, kind: str, record: Record | None) -> list[dict[str, Any]]:
        if record is None or (kind, record.id) in self._told:
            return []
        self._told.add((kind, record.id))
        return [record_line(kind, record.id, record)]

    def _license(self, entry: Entry, license: str) -> list[dict[str, Any]]:
        if ("license", entry.candidate.id) in self._told:
            return []
        self._told.add(("license", entry.candidate.id))
        return _license_line(entry.candidate.id, license)

    def _run(self, run: RunRecord) -> list[dict[str, Any]]:
        if ("run", run.run_id) in self._told:
            return []
        self._told.add(("run", run.run_id))
        update: dict[str, Any] = {"origin": "imported"}
        if not self._with_settings:
            summary = run.summary.model_copy(update={"base_url": ""}) if run.summary is not None else None
            update |= {"config": {}, "facts": {}, "summary": summary}
        return [record_line("run", run.run_id, run.model_copy(update=update))]


def foreign_columns(kernel: ForeignKernel) -> Row:
    return {column: getattr(kernel, field) for column, field in FOREIGN.items()}


def _make_field_columns(entry: Entry, task: Task, run: RunRecord | None) -> Row:
    result, timing = entry.result, entry.result.timing
    baselines = {b.name: b.median_us / 1e3 for b in (run.baselines if run else ()) if b.ok}
    level = _LEVEL.search(task.suite) or _LEVEL.search(task.source.path)
    number = _NUMBER.match(task.name)
    ok = result.status == "ok"
    return {
        "Op_Name": task.name,
        "Level_ID": int(level[1]) if level else None,
        "Task_ID": int(number[1]) if number else None,
        "Kernel_Name": "_".join([*(technique(u) for u in entry.candidate.units), entry.candidate.id]),
        "CUDA_Runtime": timing.median_us / 1e3 if timing and ok else None,
        "PyTorch_Native_Runtime": baselines.get("eager"),
        "PyTorch_Compile_Runtime": baselines.get("compile"),
        "CUDA_Speedup_Native": _median(timing.ratio("eager")) if timing and ok else None,
        "CUDA_Speedup_Compile": _median(timing.ratio("compile")) if timing and ok else None,
        "CUDA_Code": candidate_text(entry.candidate),
        "PyTorch_Code_Module": task.source.text or None,
        "Correct": None if result.status == "error" else ok,
        "Error": None if ok else f"{result.status}: {result.reason}",
    }


def _make_own_columns(result_id: str, entry: Entry, environment: Environment | None) -> Row:
    candidate, result, lineage = entry.candidate, entry.result, entry.candidate.lineage
    timing = result.timing if result.status == "ok" else None
    best, verdict = result.speedup if timing else None, result.verdict
    return {
        "ws_result_id": result_id, "ws_candidate_id": candidate.id, "ws_content_key": candidate.content_key,
        "ws_task": result.task_id, "ws_target": candidate.target, "ws_status": result.status,
        "ws_confirmed": timing is not None and timing.confirmed,
        "ws_runtime_low": timing.low_us / 1e3 if timing else None,
        "ws_runtime_high": timing.high_us / 1e3 if timing else None,
        "ws_speedup": best.median if best else None, "ws_speedup_low": best.low if best else None,
        "ws_speedup_high": best.high if best else None, "ws_baseline": best.baseline if best else None,
        "ws_limit_share": timing.limit_share if timing else None,
        "ws_error_share": max((c.error for c in verdict.checks), default=None) if verdict else None,
        "ws_labels": list(verdict.labels) if verdict else [],
        "ws_signatures": [u.region.signature for u in candidate.units],
        "ws_families": [technique(u) for u in candidate.units],
        "ws_tunables": json.dumps([u.values for u in candidate.units]),
        "ws_parents": list(lineage.parents),
        "ws_operator": lineage.operator, "ws_agent": lineage.agent, "ws_model": lineage.model,
        "ws_hypothesis": entry.hypothesis.model_dump_json() if entry.hypothesis else None,
        "ws_reason": lineage.reason,
        "ws_environment": environment.model_dump_json() if environment else None,
        "ws_profile": result.profile.model_dump_json() if result.profile else None,
        "ws_seed": result.seed, "ws_judged_at": result.judged_at,
    }  # fmt: skip


def _license_line(subject: str, license: str) -> list[dict[str, Any]]:
    return [] if license == UNKNOWN else [record_line("license", subject, Licensed(license=license))]


def _whole(views: Row, license: str, lines: list[dict[str, Any]]) -> Row:
    records = [json.dumps(line, separators=(",", ":")) for line in lines]
    columns = {"ws_license": license, "ws_format": FORMAT, "ws_records": records}
    return {c.name: None for c in ARCHIVE} | views | columns


def _median(ratio: Ratio | None) -> float | None:
    return ratio.median if ratio is not None else None
