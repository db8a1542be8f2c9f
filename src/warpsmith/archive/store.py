"""The archive: what a run writes. Each finished result is one durable transaction, so kill -9 at any
moment loses none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, func, select, update

from ..errors import ArchiveError
from ..records import (
    Admission,
    BaselineTiming,
    Candidate,
    Environment,
    Exchange,
    Hypothesis,
    Lesson,
    Limit,
    Result,
    RunSummary,
    Task,
    content_hash,
)
from . import schema as s
from .entries import Kind, RunRecord
from .learning import keep_exchange, keep_lesson, keep_told
from .owner import LEASE_SECONDS, is_gone, this_process
from .reading import ArchiveReader
from .rows import (
    BASELINES,
    admission_columns,
    keep,
    keep_candidate,
    keep_environment,
    keep_hypothesis,
    keep_task,
    result_columns,
)


class Archive(ArchiveReader):
    """The store behind `optimize`, `report` and `export`. Safe to use from several processes and threads
    at once, on PostgreSQL from several machines.
    """

    def add_task(self, task: Task) -> None:
        with self.database.transaction(write=True) as connection:
            keep_task(connection, task)

    def begin_run(
        self,
        run_id: str,
        task: Task,
        target: str,
        seed: int,
        config: dict[str, Any],
        environment: Environment,
    ) -> None:
        """Note that this process starts a run. `config` is JSON: a later run with the same one may resume
        this.
        """
        with self.database.transaction(write=True) as connection:
            keep_task(connection, task)
            keep_environment(connection, environment)
            keep(
                connection, s.runs, id=run_id, task_id=task.id, target=target, seed=seed,
                config_key=config_key(config), config=json.dumps(config), environment_id=environment.id,
                started_at=now(), finished_at="", owner=this_process(), baselines="[]", limit_record="",
                admission="", summary="", origin="local", seen_at=self.database.clock(connection),
            )  # fmt: skip

    def note_run(
        self,
        run_id: str,
        baselines: Sequence[BaselineTiming] | None = None,
        limit: Limit | None = None,
        admission: Admission | None = None,
        facts: dict[str, Any] | None = None,
    ) -> None:
        """Keep what a run measured of its task; what is not given stays as it is."""
        values: dict[str, Any] = {}
        if baselines is not None:
            values["baselines"] = BASELINES.dump_json(tuple(baselines)).decode()
        if limit is not None:
            values["limit_record"] = limit.model_dump_json()
        if admission is not None:
            values |= admission_columns(admission)
        if facts is not None:
            values["facts"] = json.dumps(facts)
        if values:
            self._change_run(run_id, **values)

    def finish_run(self, summary: RunSummary) -> None:
        self._change_run(summary.run_id, finished_at=now(), summary=summary.model_dump_json())

    def add_candidate(self, candidate: Candidate, hypothesis: Hypothesis | None = None) -> None:
        """Keep a candidate before (or without) a result of it. Its task must be in the archive."""
        with self.database.transaction(write=True) as connection:
            _keep_author(connection, candidate, hypothesis)

    def add_result(
        self,
        run_id: str | None,
        candidate: Candidate,
        result: Result,
        hypothesis: Hypothesis | None = None,
        kind: Kind = "search",
    ) -> None:
        """Keep one finished result with its candidate and hypothesis, all or nothing. Adding it twice
        changes nothing.

        `kind` is "reused" when the run took a result that an earlier run had judged.
        """
        if (result.candidate_id, result.content_key) != (
            candidate.id,
            candidate.content_key,
        ) and kind != "reused":
            raise ArchiveError(f"result {result.id} is not of candidate {candidate.id}")
        with self.database.transaction(write=True) as connection:
            _keep_author(connection, candidate, hypothesis)
            number = _keep_result(connection, result)
            if run_id is not None:
                self._hold(connection, run_id)
                _place(connection, run_id, number, kind)

    def add_confirmation(self, run_id: str | None, candidate: Candidate, result: Result) -> None:
        """Keep a winner's second measurement, made in fresh processes. `result.timing.confirmed` must be
        set.
        """
        if result.timing is not None and not result.timing.confirmed:
            raise ArchiveError(f"result {result.id} is not a confirmation: it was not measured again")
        self.add_result(run_id, candidate, result, kind="confirmation")

    def add_exchange(self, run_id: str, exchange: Exchange) -> None:
        """Keep what a model was asked and answered, at once and durably. An answer is never replaced, a
        failure is. Raises ArchiveError when the run was not begun.
        """
        with self.database.transaction(write=True) as connection:
            self._hold(connection, run_id)
            keep_exchange(connection, run_id, exchange, now(), "local")

    def add_lesson(self, lesson: Lesson) -> None:
        """Keep a remedy that worked. Known already, it counts once more, but once only for a candidate."""
        with self.database.transaction(write=True) as connection:
            keep_lesson(connection, lesson, now())

    def lesson_outcome(
        self, signature: str, target: str, remedy: str, worked: bool, candidate: str = ""
    ) -> None:
        """Note whether a lesson that was told helped; with the candidate's id, once only for that candidate."""
        with self.database.transaction(write=True) as connection:
            keep_told(connection, (signature, target, remedy), worked, candidate, now())

    def take_unfinished_run(
        self, task_id: str, target: str, config_key: str, lease: float = LEASE_SECONDS
    ) -> RunRecord | None:
        """The newest run of this kind that ended without finishing, taken over by this process; else None.

        A run whose process is alive is left alone; of one on another machine that is known by its writes: none for
        `lease` seconds. Of two callers at once one only gets the run.
        """
        r = s.runs.c
        condition = (r.task_id == task_id) & (r.target == target) & (r.config_key == config_key)
        query = (
            select(r.id, r.owner, r.seen_at)
            .where(condition, r.finished_at == "", r.origin == "local")
            .order_by(r.started_at.desc())
        )
        with self.database.transaction(write=True) as connection:
            time = self.database.clock(connection)
            rows = connection.execute(query).all()
            run_id = next((row.id for row in rows if is_gone(row.owner, time - row.seen_at, lease)), None)
            if run_id is None:
                return None
            change = {"owner": this_process(), "seen_at": time}
            connection.execute(update(s.runs).where(r.id == run_id).values(**change))
        return self.run(run_id)

    def release_run(self, run_id: str) -> None:
        """Give an interrupted run up, so that it can be resumed while this process lives on."""
        self._change_run(run_id, owner="")

    def _change_run(self, run_id: str, **values: Any) -> None:
        with self.database.transaction(write=True) as connection:
            self._hold(connection, run_id)
            connection.execute(update(s.runs).where(s.runs.c.id == run_id).values(**values))

    def _hold(self, connection: Connection, run_id: str) -> None:
        """Renew this process's lease of a run. Raises ArchiveError when there is no such run, or when another process
        took it over because this one was silent for too long.
        """
        r = s.runs.c
        owner = connection.execute(select(r.owner).where(r.id == run_id)).scalar()
        if owner is None:
            raise ArchiveError(f"no run {run_id}: begin it first (in {self.database.name})")
        if owner not in ("", this_process()):
            raise ArchiveError(f"run {run_id} was taken over by another process ({owner}): this one stops")
        lease_row = {"seen_at": self.database.clock(connection)}
        connection.execute(update(s.runs).where(r.id == run_id).values(**lease_row))


def config_key(config: dict[str, Any]) -> str:
    """Return what `take_unfinished_run` looks for: the hash of a run's configuration."""
    return content_hash(config)


def now() -> str:
    """The time in ISO 8601, UTC, to the microsecond, so that text order is time order."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _keep_author(connection: Connection, candidate: Candidate, hypothesis: Hypothesis | None) -> None:
    if hypothesis is not None:
        keep_hypothesis(connection, hypothesis)
    keep_candidate(connection, candidate)


def _keep_result(connection: Connection, result: Result) -> int:
    """The row number of the result, new or there already. A local result takes the place of an imported
    twin.
    """
    r = s.results
    keep(connection, r, id=result.id, **result_columns(result, "local"))
    row = connection.execute(select(r.c.number, r.c.origin).where(r.c.id == result.id)).one()
    if row.origin != "local":
        connection.execute(
            update(r).where(r.c.number == row.number).values(**result_columns(result, "local"))
        )
    return int(row.number)


def _place(connection: Connection, run_id: str, number: int, kind: Kind) -> None:
    """Append the result to the run, unless the run has it."""
    run = connection.execute(select(s.runs.c.started_at).where(s.runs.c.id == run_id)).scalar_one()
    p = s.run_results.c
    if connection.execute(select(p.number).where(p.run_id == run_id, p.result_number == number)).first():
        return
    last = connection.execute(select(func.max(p.number)).where(p.run_id == run_id)).scalar() or 0
    elapsed = (datetime.now(UTC) - datetime.fromisoformat(run)).total_seconds()
    keep(
        connection, s.run_results, run_id=run_id, number=last + 1, result_number=number, kind=kind,
        elapsed=elapsed,
    )  # fmt: skip
