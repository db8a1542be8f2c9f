"""An archive as JSON lines and back, for other machines.

Each line is `{"kind": …, "id": …, "record": …}`; a line refers only to lines before it. What comes in is
marked `imported`: it never replaces a local result, and counts as unverified until the candidate is
judged here. An import is all or nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from sqlalchemy import Connection, select
from sqlalchemy.exc import IntegrityError

from ..errors import ArchiveError
from ..records import Candidate, Environment, Hypothesis, Record, Result, Task
from . import schema as s
from .entries import Kind, RunRecord
from .reading import ArchiveReader
from .rows import (
    BASELINES,
    keep,
    keep_candidate,
    keep_environment,
    keep_hypothesis,
    keep_task,
    load_candidate,
    result_columns,
    run_record,
)
from .store import Archive, config_key

FORMAT = 1


class ImportCounts(BaseModel):
    """Lines read, by kind, and how many results and runs were new here."""

    lines: dict[str, int] = {}
    new_results: int = 0
    new_runs: int = 0


class PlacedResult(BaseModel):
    """A result's place in a run, as one line."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: str
    number: int
    result: str  # Result id
    kind: Kind
    elapsed: float


def export_jsonl(archive: ArchiveReader, path: Path) -> int:
    """Write the whole archive to `path` (built aside, then renamed) and return the number of records."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    count = 0
    try:
        with aside.open("w", encoding="utf-8") as file:
            for line in _lines(archive):
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
                count += 1
        aside.replace(path)
    except OSError as error:
        with suppress(OSError):  # what could not be written is often not there to be removed either
            aside.unlink()
        raise ArchiveError(f"cannot write {path}: {error.strerror}") from error
    return count - 1


def import_jsonl(archive: Archive, path: Path) -> ImportCounts:
    """Add what `path` holds; doing it twice changes nothing. Raises ArchiveError naming the first bad
    line.
    """
    counts = ImportCounts()
    try:
        with path.open(encoding="utf-8") as file, archive.database.transaction(write=True) as connection:
            for number, line in enumerate(file, 1):
                if line.strip():
                    _import_line(connection, counts, f"{path.name}:{number}", line, first=number == 1)
    except OSError as error:
        raise ArchiveError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ArchiveError(f"{path} is not text: it is no archive export") from error
    if not counts.lines:
        raise ArchiveError(f"{path} is empty: it is no archive export")
    return counts


def _lines(archive: ArchiveReader) -> Iterator[dict[str, Any]]:
    yield {"kind": "header", "format": FORMAT}
    with archive.database.transaction() as connection:
        for kind, table in (("environment", s.environments), ("task", s.tasks), ("hypothesis", s.hypotheses)):
            for row in connection.execute(select(table.c.id, table.c.record).order_by(table.c.id)):
                yield {"kind": kind, "id": row.id, "record": json.loads(row.record)}
        for candidate_id in (
            connection.execute(select(s.candidates.c.id).order_by(s.candidates.c.id)).scalars().all()
        ):
            candidate = load_candidate(connection, candidate_id)
            if candidate is not None:
                yield {"kind": "candidate", "id": candidate_id, "record": candidate.model_dump(mode="json")}
        for row in connection.execute(select(s.results).order_by(s.results.c.number)):
            result = without_paths(Result.model_validate_json(row.record))
            yield {"kind": "result", "id": row.id, "record": result.model_dump(mode="json")}
        for row in connection.execute(_runs()):
            yield {"kind": "run", "id": row.id, "record": run_record(row).model_dump(mode="json")}
        for row in connection.execute(_places()):
            yield {"kind": "place", "id": "", "record": _place(row).model_dump(mode="json")}


def without_paths(result: Result) -> Result:
    """The result without the paths of its built libraries: another machine's files, never to be loaded
    here.
    """
    return result.model_copy(
        update={"builds": tuple(b.model_copy(update={"library": ""}) for b in result.builds)}
    )


def _import_line(connection: Connection, counts: ImportCounts, where: str, line: str, first: bool) -> None:
    try:
        data = json.loads(line)
        kind = data["kind"]
        if first != (kind == "header"):
            raise ArchiveError(
                f"{where}: {'no header' if first else 'a second header'}: this is no archive export"
            )
        if kind == "header":
            if data["format"] > FORMAT:
                raise ArchiveError(
                    f"{where}: written by a newer warpsmith (format {data['format']}): upgrade first"
                )
        else:
            READERS[kind](connection, counts, str(data["id"]), json.dumps(data["record"]))
        counts.lines[kind] = counts.lines.get(kind, 0) + 1
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(p) for p in problem["loc"])
        raise ArchiveError(
            f"{where}: not a valid {error.title.lower()}: {place}: {problem['msg']}"
        ) from error
    except IntegrityError as error:
        raise ArchiveError(f"{where}: refers to a record that no line before it holds") from error
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ArchiveError(f"{where}: not a line of an archive export ({error})") from error
    except ArchiveError as error:
        raise error if str(error).startswith(where) else ArchiveError(f"{where}: {error}") from error


def _same_id(record: Record, given: str) -> None:
    if record.id != given:
        raise ArchiveError(f"{type(record).__name__.lower()} {given} does not match its content")


def _read_environment(connection: Connection, _: ImportCounts, given: str, text: str) -> None:
    environment = Environment.model_validate_json(text)
    _same_id(environment, given)
    keep_environment(connection, environment)


def _read_task(connection: Connection, _: ImportCounts, given: str, text: str) -> None:
    task = Task.model_validate_json(text)
    _same_id(task, given)
    keep_task(connection, task)


def _read_hypothesis(connection: Connection, _: ImportCounts, given: str, text: str) -> None:
    hypothesis = Hypothesis.model_validate_json(text)
    _same_id(hypothesis, given)
    keep_hypothesis(connection, hypothesis)


def _read_candidate(connection: Connection, _: ImportCounts, given: str, text: str) -> None:
    candidate = Candidate.model_validate_json(text)
    _same_id(candidate, given)
    keep_candidate(connection, candidate)


def _read_result(connection: Connection, counts: ImportCounts, given: str, text: str) -> None:
    result = without_paths(Result.model_validate_json(text))
    candidate = load_candidate(connection, result.candidate_id)
    if candidate is None:
        raise ArchiveError(
            f"result {given} is of candidate {result.candidate_id}, which no line before it holds"
        )
    named = (result.content_key, result.task_id, result.target)
    if named != (candidate.content_key, candidate.task_id, candidate.target):
        raise ArchiveError(f"result {given} does not match its candidate")
    known = connection.execute(select(s.results.c.number).where(s.results.c.id == given)).first()
    if known is None:
        connection.execute(s.results.insert().values(id=given, **result_columns(result, "imported")))
        counts.new_results += 1


def _read_run(connection: Connection, counts: ImportCounts, given: str, text: str) -> None:
    run = RunRecord.model_validate_json(text)
    if run.run_id != given:
        raise ArchiveError(f"run {given} does not match its content")
    if connection.execute(select(s.runs.c.id).where(s.runs.c.id == given)).first() is None:
        counts.new_runs += 1
        keep_environment(connection, run.environment)
        connection.execute(
            s.runs.insert().values(
                id=given, task_id=run.task_id, target=run.target, seed=run.seed,
                config_key=config_key(run.config), config=json.dumps(run.config),
                environment_id=run.environment.id, started_at=run.started_at,
                finished_at=run.finished_at, owner="", baselines=BASELINES.dump_json(run.baselines).decode(),
                limit_record=run.limit.model_dump_json() if run.limit else "",
                admission=run.admission.model_dump_json() if run.admission else "",
                summary=run.summary.model_dump_json() if run.summary else "", origin="imported",
            )
        )  # fmt: skip


def _read_place(connection: Connection, _: ImportCounts, given: str, text: str) -> None:
    place = PlacedResult.model_validate_json(text)
    result = connection.execute(select(s.results.c.number).where(s.results.c.id == place.result)).scalar()
    origin = connection.execute(select(s.runs.c.origin).where(s.runs.c.id == place.run_id)).scalar()
    if result is None or origin is None:
        raise ArchiveError(
            f"place {place.number} of run {place.run_id} refers to a record that no line before it holds"
        )
    if origin == "imported":  # a local run keeps its own order
        keep(
            connection, s.run_results, run_id=place.run_id, number=place.number, result_number=result,
            kind=place.kind, elapsed=place.elapsed,
        )  # fmt: skip


READERS: dict[str, Callable[[Connection, ImportCounts, str, str], None]] = {
    "environment": _read_environment, "task": _read_task, "hypothesis": _read_hypothesis,
    "candidate": _read_candidate, "result": _read_result, "run": _read_run, "place": _read_place,
}  # fmt: skip


def _runs() -> Any:
    return (
        select(s.runs, s.tasks.c.name.label("task_name"), s.environments.c.record.label("environment_record"))
        .join(s.tasks, s.tasks.c.id == s.runs.c.task_id)
        .join(s.environments, s.environments.c.id == s.runs.c.environment_id)
        .order_by(s.runs.c.started_at, s.runs.c.id)
    )


def _places() -> Any:
    p = s.run_results.c
    query = select(p.run_id, p.number, s.results.c.id.label("result"), p.kind, p.elapsed)
    return query.join(s.results, s.results.c.number == p.result_number).order_by(p.run_id, p.number)


def _place(row: Any) -> PlacedResult:
    return PlacedResult(
        run_id=row.run_id, number=row.number, result=row.result, kind=row.kind, elapsed=row.elapsed
    )
