"""Rows to records and back. Every record read is validated, and a candidate put together from its parts
must hash to its id. In a list a row that is damaged is left out with a warning that names it, so that it takes
nothing else with it; asked for by its id it is an error.
"""

from __future__ import annotations

import json
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Connection, Row, Table, select
from sqlalchemy.dialects import postgresql, sqlite

from ..errors import ArchiveError
from ..records import (
    Admission,
    BaselineTiming,
    Candidate,
    Environment,
    Hypothesis,
    Limit,
    Lineage,
    Record,
    Result,
    RunSummary,
    Task,
    Unit,
)
from . import schema as s
from .entries import Entry, RunRecord
from .text_index import index_unit

AnyRecord = TypeVar("AnyRecord", bound=Record)
Read = TypeVar("Read")
AT_ONCE = 500  # ids in one query: both databases limit the parameters of a statement
INSERT: dict[str, Callable[[Table], Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


class ArchiveWarning(UserWarning):
    """A row of the archive cannot be read and is left out."""


BASELINES: TypeAdapter[tuple[BaselineTiming, ...]] = TypeAdapter(tuple[BaselineTiming, ...])


def keep(connection: Connection, table: Table, **values: Any) -> bool:
    """Insert a row whose id is the hash of what it holds: there already means nothing to do. Whether it is new."""
    insert = INSERT[connection.dialect.name](table).values(**values).on_conflict_do_nothing()
    done = connection.execute(insert, execution_options={"preserve_rowcount": True})
    return done.rowcount == 1


def keep_task(connection: Connection, task: Task) -> None:
    keep(connection, s.tasks, id=task.id, name=task.name, suite=task.suite, record=task.model_dump_json())


def keep_environment(connection: Connection, environment: Environment) -> None:
    keep(connection, s.environments, id=environment.id, record=environment.model_dump_json())


def keep_hypothesis(connection: Connection, hypothesis: Hypothesis) -> None:
    keep(connection, s.hypotheses, id=hypothesis.id, record=hypothesis.model_dump_json())


def keep_candidate(connection: Connection, candidate: Candidate) -> None:
    """A candidate with its units and the ids of its parents. Its task must be in the archive."""
    keep(
        connection, s.candidates, id=candidate.id, task_id=candidate.task_id, target=candidate.target,
        content_key=candidate.content_key, lineage=candidate.lineage.model_dump_json(),
    )  # fmt: skip
    for position, unit in enumerate(candidate.units):
        is_new = keep(
            connection, s.units, id=unit.id, signature=unit.region.signature, code_key=unit.code_key,
            family=unit.family, record=unit.model_dump_json(),
        )  # fmt: skip
        if is_new:
            index_unit(connection, unit)
        keep(connection, s.candidate_units, candidate_id=candidate.id, position=position, unit_id=unit.id)
    for position, parent in enumerate(candidate.lineage.parents):
        keep(connection, s.candidate_parents, candidate_id=candidate.id, position=position, parent_id=parent)


def result_columns(result: Result, origin: str) -> dict[str, Any]:
    """Everything a row of `results` holds but its id and number."""
    speedup = result.speedup
    return {
        "candidate_id": result.candidate_id, "content_key": result.content_key, "task_id": result.task_id,
        "target": result.target, "environment_id": result.environment, "status": result.status,
        "win": result.win,
        "confirmed": result.confirmed,
        "speedup": speedup.median if speedup is not None else 0.0, "origin": origin,
        "judged_at": result.judged_at, "record": result.model_dump_json(),
    }  # fmt: skip


def admission_columns(admission: Admission | None) -> dict[str, Any]:
    """Return the columns of a row of `runs` that say whether its task is admitted."""
    if admission is None:
        return {"admission": "", "admitted": None}
    return {"admission": admission.model_dump_json(), "admitted": admission.admitted}


def load_record(
    connection: Connection, table: Table, kind: type[AnyRecord], record_id: str
) -> AnyRecord | None:
    """The record with this id, or None. Raises ArchiveError when its content is not what the id says."""
    text = connection.execute(select(table.c.record).where(table.c.id == record_id)).scalar()
    if text is None:
        return None
    return _matching(kind.model_validate_json(text), record_id)


def load_candidate(connection: Connection, candidate_id: str) -> Candidate | None:
    """Raises ArchiveError when its content is not what the id says."""
    for row, units in _parts(connection, [candidate_id]):
        return _assemble(row, units)
    return None


def load_candidates(connection: Connection, ids: Iterable[str]) -> dict[str, Candidate]:
    """The candidates that are stored and whole, by id, in the order of `ids`."""
    ids_wanted = list(dict.fromkeys(ids))
    candidates: dict[str, Candidate] = {}
    for start in range(0, len(ids_wanted), AT_ONCE):
        for row, units in _parts(connection, ids_wanted[start : start + AT_ONCE]):
            candidate = whole("candidate", row.id, _assemble, row, units)
            if candidate is not None:
                candidates[row.id] = candidate
    return {
        candidate_id: candidates[candidate_id] for candidate_id in ids_wanted if candidate_id in candidates
    }


def load_entries(connection: Connection, rows: Iterable[Any], as_judged: bool = False) -> list[Entry]:
    """Rows of `results`, possibly joined with `run_results`, as entries; each candidate is read once. Their shares of the limit
    are by the limit of their run, which may have been measured again after they were judged; `as_judged`: by that of then.
    """
    rows = list(rows)
    limits = {} if as_judged else load_limits(connection, rows)
    candidates = load_candidates(connection, (row.candidate_id for row in rows))
    hypotheses: dict[str, Hypothesis | None] = {"": None}
    entries = []
    for row in rows:
        candidate = candidates.get(row.candidate_id)
        if candidate is None:
            _left_out("result", row.id, f"its candidate {row.candidate_id} is missing or damaged")
            continue
        result = whole("result", row.id, Result.model_validate_json, row.record)
        if result is None:
            continue
        limit = limits.get(row.number)
        result = result.restate(limit) if limit is not None else result
        hypothesis_id = candidate.lineage.hypothesis
        if hypothesis_id not in hypotheses:
            args = connection, s.hypotheses, Hypothesis, hypothesis_id
            hypotheses[hypothesis_id] = whole("hypothesis", hypothesis_id, load_record, *args)
        entries.append(_entry(row, candidate, result, hypotheses[hypothesis_id]))
    return entries


def load_limits(connection: Connection, rows: Sequence[Any]) -> dict[int, Limit]:
    """Load the limit that belongs to each row of `results`, by its number: of the run that it was asked for, else of the one that
    judged it.
    """
    p, limits = s.run_results.c, dict[int, Limit]()
    parse = cache(Limit.model_validate_json)
    for start in range(0, len(rows), AT_ONCE):
        run_of = {row.number: row._asdict().get("run_id") for row in rows[start : start + AT_ONCE]}
        query = (
            select(p.result_number, p.run_id, s.runs.c.limit_record)
            .join(s.runs, s.runs.c.id == p.run_id)
            .where(p.result_number.in_(run_of), s.runs.c.limit_record != "")
            .order_by(p.kind == "reused", p.run_id)
        )
        for number, run_id, record in connection.execute(query):
            if run_of[number] in (None, run_id):
                limits.setdefault(number, parse(record))
    return limits


def _entry(row: Any, candidate: Candidate, result: Result, hypothesis: Hypothesis | None) -> Entry:
    fields = row._asdict()  # its `get` is fast where a column is absent
    return Entry(
        candidate=candidate, result=result, origin=row.origin, run_id=fields.get("run_id") or "",
        number=fields.get("place") or 0, kind=fields.get("kind") or "search",
        elapsed=fields.get("elapsed") or 0.0, hypothesis=hypothesis,
    )  # fmt: skip


def _parts(connection: Connection, ids: Sequence[str]) -> Iterator[tuple[Row[Any], list[str]]]:
    """Each candidate's row with the records of its units, in order."""
    table = s.candidate_units.c
    query = (
        select(table.candidate_id, s.units.c.record)
        .join(s.units, table.unit_id == s.units.c.id)
        .where(table.candidate_id.in_(ids))
        .order_by(table.candidate_id, table.position)
    )
    units: dict[str, list[str]] = defaultdict(list)
    for candidate_id, record in connection.execute(query):
        units[candidate_id].append(record)
    for row in connection.execute(select(s.candidates).where(s.candidates.c.id.in_(ids))).all():
        yield row, units[row.id]


def _assemble(row: Any, units: Iterable[str]) -> Candidate:
    read = tuple(Unit.model_validate_json(text) for text in units)
    lineage = Lineage.model_validate_json(row.lineage)
    return _matching(Candidate(task_id=row.task_id, target=row.target, units=read, lineage=lineage), row.id)


def whole(what: str, name: str, read: Callable[..., Read], *args: Any) -> Read | None:
    """Return what `read` returns; None for a damaged row, with a warning that names it."""
    try:
        return read(*args)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        _left_out(what, name, f"{'.'.join(str(p) for p in problem['loc'])}: {problem['msg']}")
    except (ArchiveError, json.JSONDecodeError) as error:
        _left_out(what, name, str(error))
    return None


def _left_out(what: str, name: str, why: str) -> None:
    warnings.warn(
        f"{what} {name} of the archive is damaged and left out ({why})", ArchiveWarning, stacklevel=2
    )


def run_record(row: Any) -> RunRecord:
    """A row of `runs` joined with its task's name and its environment's record."""
    return RunRecord(
        run_id=row.id, task_id=row.task_id, task_name=row.task_name, target=row.target, seed=row.seed,
        config=json.loads(row.config), environment=Environment.model_validate_json(row.environment_record),
        started_at=row.started_at, finished_at=row.finished_at,
        baselines=BASELINES.validate_json(row.baselines),
        limit=Limit.model_validate_json(row.limit_record) if row.limit_record else None,
        admission=Admission.model_validate_json(row.admission) if row.admission else None,
        summary=RunSummary.model_validate_json(row.summary) if row.summary else None, origin=row.origin,
        facts=json.loads(row.facts) if row.facts else {},
    )  # fmt: skip


def _matching(record: AnyRecord, record_id: str) -> AnyRecord:
    if record.id != record_id:
        name = type(record).__name__.lower()
        raise ArchiveError(f"the archive is damaged: {name} {record_id} does not match its content")
    return record
