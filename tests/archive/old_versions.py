"""Archive files as earlier versions wrote them, made by that version's own steps and plain inserts."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import inspect

from warpsmith.archive import schema as s
from warpsmith.archive.engine import Database
from warpsmith.archive.migrations import STEPS, migrate
from warpsmith.archive.rows import result_columns
from warpsmith.records import Admission, Candidate, Result


def write_old_archive(path: Path, make: Any, version: int, quarantined: bool = False) -> None:
    """One run, "old", with one result, of candidate 1, judged in 2024."""
    candidate, database = make.candidate(1), Database(path)
    result = make.ok(candidate).model_copy(update={"judged_at": "2024-01-01T00:00:01.000000+00:00"})
    admission = Admission(admitted=not quarantined, mutants={})
    with database.transaction(write=True) as connection:
        migrate(connection, database.name, STEPS[:version])
        for table, values in _rows(make, candidate, result, admission):
            known = {c["name"] for c in inspect(connection).get_columns(table.name)}
            connection.execute(table.insert().values({k: v for k, v in values.items() if k in known}))
    database.close()
    with sqlite3.connect(path) as raw:
        assert raw.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone() == (
            str(version),
        )


def _rows(
    make: Any, candidate: Candidate, result: Result, admission: Admission
) -> list[tuple[Any, dict[str, Any]]]:
    (unit,) = candidate.units
    task, environment = make.task, make.environment
    run = {
        "id": "old", "task_id": task.id, "target": "cpu", "seed": 0, "config_key": "k", "config": "{}",
        "environment_id": environment.id, "started_at": "2024-01-01T00:00:00.000000+00:00", "finished_at": "",
        "owner": "", "baselines": "[]", "limit_record": "", "admission": admission.model_dump_json(), "summary": "",
        "origin": "local",
    }  # fmt: skip
    return [
        (s.tasks, {"id": task.id, "name": task.name, "suite": task.suite, "record": task.model_dump_json()}),
        (s.environments, {"id": environment.id, "record": environment.model_dump_json()}),
        (s.runs, run),
        (s.units, {"id": unit.id, "signature": unit.region.signature, "code_key": unit.code_key,
                   "family": unit.family, "record": unit.model_dump_json()}),
        (s.candidates, {"id": candidate.id, "task_id": task.id, "target": "cpu",
                        "content_key": candidate.content_key, "lineage": candidate.lineage.model_dump_json()}),
        (s.candidate_units, {"candidate_id": candidate.id, "position": 0, "unit_id": unit.id}),
        (s.results, {"number": 1, "id": result.id, **result_columns(result, "local")}),
        (s.run_results, {"run_id": "old", "number": 1, "result_number": 1, "kind": "search", "elapsed": 1.0}),
    ]  # fmt: skip
