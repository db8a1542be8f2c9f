"""Rows to records and back. Every record read is validated, and a candidate put together from its parts
must hash to its id.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import TypeAdapter
from sqlalchemy import Connection, Table, select
from sqlalchemy.dialects.sqlite import insert

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

AnyRecord = TypeVar("AnyRecord", bound=Record)
BASELINES: TypeAdapter[tuple[BaselineTiming, ...]] = TypeAdapter(tuple[BaselineTiming, ...])


def keep(connection: Connection, table: Table, **values: Any) -> None:
    """Insert a row whose id is the hash of what it holds: there already means nothing to do."""
    connection.execute(insert(table).values(**values).on_conflict_do_nothing())


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
        keep(
            connection, s.units, id=unit.id, signature=unit.region.signature, code_key=unit.code_key,
            family=unit.family, record=unit.model_dump_json(),
        )  # fmt: skip
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
        "confirmed": result.timing is not None and result.timing.confirmed,
        "speedup": speedup.median if speedup is not None else 0.0, "origin": origin,
        "record": result.model_dump_json(),
    }  # fmt: skip


def load_record(
    connection: Connection, table: Table, kind: type[AnyRecord], record_id: str
) -> AnyRecord | None:
    """The record with this id, or None. Raises ArchiveError when its content is not what the id says."""
    text = connection.execute(select(table.c.record).where(table.c.id == record_id)).scalar()
    if text is None:
        return None
    return _matching(kind.model_validate_json(text), record_id)


def load_candidate(connection: Connection, candidate_id: str) -> Candidate | None:
    row = connection.execute(select(s.candidates).where(s.candidates.c.id == candidate_id)).one_or_none()
    if row is None:
        return None
    query = (
        select(s.units.c.record)
        .join(s.candidate_units, s.candidate_units.c.unit_id == s.units.c.id)
        .where(s.candidate_units.c.candidate_id == candidate_id)
        .order_by(s.candidate_units.c.position)
    )
    units = tuple(Unit.model_validate_json(text) for text in connection.execute(query).scalars())
    lineage = Lineage.model_validate_json(row.lineage)
    candidate = Candidate(task_id=row.task_id, target=row.target, units=units, lineage=lineage)
    return _matching(candidate, candidate_id)


def load_entries(connection: Connection, rows: Iterable[Any]) -> list[Entry]:
    """Rows of `results`, possibly joined with `run_results`, as entries; each candidate is read once."""
    candidates: dict[str, Candidate] = {}
    hypotheses: dict[str, Hypothesis | None] = {}
    entries = []
    for row in rows:
        if row.candidate_id not in candidates:
            candidate = load_candidate(connection, row.candidate_id)
            if candidate is None:
                raise ArchiveError(f"the archive is damaged: candidate {row.candidate_id} is missing")
            candidates[row.candidate_id] = candidate
        candidate = candidates[row.candidate_id]
        wanted = candidate.lineage.hypothesis
        if wanted and wanted not in hypotheses:
            hypotheses[wanted] = load_record(connection, s.hypotheses, Hypothesis, wanted)
        place = row._mapping
        entries.append(
            Entry(
                candidate=candidate, result=Result.model_validate_json(row.record), origin=row.origin,
                run_id=place.get("run_id") or "", number=place.get("place") or 0,
                kind=place.get("kind") or "search",
                elapsed=place.get("elapsed") or 0.0, hypothesis=hypotheses.get(wanted),
            )
        )  # fmt: skip
    return entries


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
