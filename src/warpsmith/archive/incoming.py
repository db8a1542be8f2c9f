"""Readers of an archive export's lines: one reader a kind. Each validates the record and refuses one that does
not match its id or that refers to nothing; nothing that was judged or learnt here is overridden.

`take` is the way in for a line of any file: it names the place of what is wrong in one line of an ArchiveError.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from sqlalchemy import Connection, select
from sqlalchemy.exc import IntegrityError

from ..errors import ArchiveError
from ..records import Candidate, Environment, Exchange, Hypothesis, Lesson, Record, Result, Task
from . import schema as s
from .entries import Kind, RunRecord
from .foreign import ForeignKernel, keep_foreign, keep_license
from .learning import keep_exchange, keep_foreign_lesson
from .rows import (
    BASELINES,
    admission_columns,
    keep,
    keep_candidate,
    keep_environment,
    keep_hypothesis,
    keep_task,
    load_candidate,
    result_columns,
)
from .store import config_key, now

AnyRecord = TypeVar("AnyRecord", bound=Record)
Reader = Callable[[Connection, "ImportCounts", str, str], None]


class ImportCounts(BaseModel):
    """Lines read, by kind, and how many results, runs and foreign kernels were new here."""

    lines: dict[str, int] = {}
    new_results: int = 0
    new_runs: int = 0
    new_foreign: int = 0
    left_out: set[str] = set()  # columns of a table that nothing here knows


class PlacedResult(BaseModel):
    """A result's place in a run, as one line."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: str
    number: int
    result: str  # Result id
    kind: Kind
    elapsed: float


class Licensed(BaseModel):
    """The licence of a candidate or a foreign kernel, as one line; the line's id says of which."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    license: str


class PlacedExchange(BaseModel):
    """An exchange of a run, as one line."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: str
    created_at: str  # ISO 8601 UTC
    exchange: Exchange


def without_paths(result: Result) -> Result:
    """The result without the paths of its built libraries: another machine's files, never to be loaded
    here.
    """
    return result.model_copy(
        update={"builds": tuple(b.model_copy(update={"library": ""}) for b in result.builds)}
    )


def _same_id(record: Record, given: str) -> None:
    if record.id != given:
        raise ArchiveError(f"{type(record).__name__.lower()} {given} does not match its content")


def _keeper(kind: type[AnyRecord], keep_it: Callable[[Connection, AnyRecord], None]) -> Reader:
    """The reader of a kind whose id is the hash of its content: kept as it is, once."""

    def read(connection: Connection, _: ImportCounts, given: str, text: str) -> None:
        record = kind.model_validate_json(text)
        _same_id(record, given)
        keep_it(connection, record)

    return read


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
    stored = connection.execute(select(s.results.c.number).where(s.results.c.id == given)).first()
    if stored is None:
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
                summary=run.summary.model_dump_json() if run.summary else "", origin="imported",
                facts=json.dumps(run.facts) if run.facts else "", **admission_columns(run.admission),
            )
        )  # fmt: skip


def _read_place(connection: Connection, _: ImportCounts, given: str, text: str) -> None:
    record = PlacedResult.model_validate_json(text)
    result = connection.execute(select(s.results.c.number).where(s.results.c.id == record.result)).scalar()
    origin = connection.execute(select(s.runs.c.origin).where(s.runs.c.id == record.run_id)).scalar()
    if result is None or origin is None:
        raise ArchiveError(
            f"place {record.number} of run {record.run_id} refers to a record that no line before it holds"
        )
    if origin == "imported":  # a local run keeps its own order
        keep(
            connection, s.run_results, run_id=record.run_id, number=record.number, result_number=result,
            kind=record.kind, elapsed=record.elapsed,
        )  # fmt: skip


def _read_exchange(connection: Connection, _: ImportCounts, given: str, text: str) -> None:
    placed = PlacedExchange.model_validate_json(text)
    origin = connection.execute(select(s.runs.c.origin).where(s.runs.c.id == placed.run_id)).scalar()
    if origin is None:
        raise ArchiveError(f"an exchange of run {placed.run_id}, which no line before it holds")
    if origin == "imported":  # a local run asks for itself
        keep_exchange(connection, placed.run_id, placed.exchange, placed.created_at, "imported")


def _read_lesson(connection: Connection, _: ImportCounts, given: str, text: str) -> None:
    keep_foreign_lesson(connection, Lesson.model_validate_json(text), now())


def _read_foreign(connection: Connection, counts: ImportCounts, given: str, text: str) -> None:
    kernel = ForeignKernel.model_validate_json(text)
    _same_id(kernel, given)
    counts.new_foreign += keep_foreign(connection, kernel)


def _read_license(connection: Connection, _: ImportCounts, given: str, text: str) -> None:
    keep_license(connection, given, Licensed.model_validate_json(text).license)


READERS: dict[str, Reader] = {
    "environment": _keeper(Environment, keep_environment), "task": _keeper(Task, keep_task),
    "hypothesis": _keeper(Hypothesis, keep_hypothesis), "candidate": _keeper(Candidate, keep_candidate),
    "result": _read_result, "run": _read_run, "place": _read_place, "exchange": _read_exchange,
    "lesson": _read_lesson, "foreign": _read_foreign, "license": _read_license,
}  # fmt: skip


def take(connection: Connection, counts: ImportCounts, where: str, data: dict[str, Any]) -> None:
    """Keep one line of an export, `{"kind": …, "id": …, "record": …}`. Raises ArchiveError that begins with `where`."""
    try:
        kind = data["kind"]
        READERS[kind](connection, counts, str(data["id"]), json.dumps(data["record"]))
        counts.lines[kind] = counts.lines.get(kind, 0) + 1
    except ValidationError as error:
        raise invalid(where, error) from error
    except IntegrityError as error:
        raise ArchiveError(f"{where}: refers to a record that no line before it holds") from error
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ArchiveError(f"{where}: not a line of an archive export ({error})") from error
    except ArchiveError as error:
        raise ArchiveError(f"{where}: {error}") from error


def invalid(where: str, error: ValidationError) -> ArchiveError:
    """The first thing that is wrong with a record, in one line."""
    problem = error.errors(include_url=False, include_input=False)[0]
    location = ".".join(str(p) for p in problem["loc"])
    return ArchiveError(f"{where}: not a valid {error.title.lower()}: {location}: {problem['msg']}")
