"""The reading half of the archive: single records, lineages, runs, what models were asked and what was learnt."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, func, select, text, true

from ..errors import ArchiveError
from ..records import Candidate, Environment, Exchange, Hypothesis, Lesson, Task
from . import schema as s
from .entries import Entry, KeptLesson, RunRecord
from .kernels import KernelReader
from .learning import helpful, load_exchange, load_exchanges, load_lessons
from .rows import load_candidate, load_candidates, load_record, run_record, whole

MOST_DAMAGED = 10  # runs that may be unreadable before the latest one that is not


class ArchiveReader(KernelReader):
    """A reader of an archive. Opening one creates it when there is none and upgrades an older one."""

    # -- single records ----------------------------------------------------------------------------

    def task(self, task_id: str) -> Task | None:
        with self.database.transaction() as connection:
            return load_record(connection, s.tasks, Task, task_id)

    def candidate(self, candidate_id: str) -> Candidate | None:
        """The candidate with its units, sources included."""
        with self.database.transaction() as connection:
            return load_candidate(connection, candidate_id)

    def hypothesis(self, hypothesis_id: str) -> Hypothesis | None:
        with self.database.transaction() as connection:
            return load_record(connection, s.hypotheses, Hypothesis, hypothesis_id)

    def environment(self, environment_id: str) -> Environment | None:
        with self.database.transaction() as connection:
            return load_record(connection, s.environments, Environment, environment_id)

    # -- lineage -----------------------------------------------------------------------------------

    def ancestors(self, candidate_id: str) -> list[Candidate]:
        """The candidate's parents, their parents and so on, each once, nearest first, as far as they are
        stored.
        """
        query = text(
            "WITH RECURSIVE up (id, depth) AS (SELECT c.id, 0 FROM candidates c WHERE c.id = :id "
            "UNION SELECT p.parent_id, up.depth + 1 FROM up JOIN candidate_parents p ON p.candidate_id = up.id "
            "WHERE up.depth < 10000) SELECT id FROM up WHERE depth > 0 GROUP BY id ORDER BY MIN(depth), id"
        )
        with self.database.transaction() as connection:
            ids = list(connection.execute(query, {"id": candidate_id}).scalars())
            return list(load_candidates(connection, (i for i in ids if i != candidate_id)).values())

    def children(self, candidate_id: str) -> list[Candidate]:
        parents = s.candidate_parents.c
        query = (
            select(parents.candidate_id)
            .where(parents.parent_id == candidate_id)
            .order_by(parents.candidate_id)
        )
        with self.database.transaction() as connection:
            return list(load_candidates(connection, connection.execute(query).scalars().all()).values())

    # -- runs --------------------------------------------------------------------------------------

    def runs(self, task_id: str | None = None) -> list[RunRecord]:
        """Every run (of a task), newest first."""
        query = _RUNS.order_by(*_NEWEST)
        if task_id is not None:
            query = query.where(s.runs.c.task_id == task_id)
        with self.database.transaction() as connection:
            rows = connection.execute(query).all()
        records = (whole("run", row.id, run_record, row) for row in rows)
        return [run for run in records if run is not None]

    def run(self, run_id: str | None = None) -> RunRecord:
        """The run with this id, or whose id begins so; None: the latest. Raises ArchiveError when there
        is none.
        """
        query = _RUNS.order_by(*_NEWEST)
        if run_id is not None:
            query = query.where(s.runs.c.id.startswith(run_id, autoescape=True))
        with self.database.transaction() as connection:
            rows = connection.execute(query.limit(2 if run_id else MOST_DAMAGED)).all()
            read = (whole("run", row.id, run_record, row) for row in rows)
            matches = [run for run in read if run is not None][:2]
        exact = [run for run in matches if run.run_id == run_id]
        if not matches:
            problem = f"no run {run_id}" if run_id else "no runs yet"
            raise ArchiveError(
                f"{problem} in {self.database.name}: `warpsmith archive list` shows what it holds"
            )
        if run_id is not None and not exact and len(matches) > 1:
            raise ArchiveError(f"more than one run begins with {run_id}: give more of its id")
        return (exact or matches)[0]

    def run_entries(self, run_id: str, as_judged: bool = False) -> list[Entry]:
        """List what a run judged (or reused), in the order in which it finished. All shares are of the run's limit; `as_judged`:
        of the limit as it was known when each was judged.
        """
        return self.entries(select_run_results(run_id), as_judged)

    def run_of(self, result_id: str) -> str | None:
        """The id of the run that judged this result, rather than of one that took it over."""
        table = s.run_results.c
        query = (
            select(table.run_id)
            .join(s.results, table.result_number == s.results.c.number)
            .where(s.results.c.id == result_id)
            .order_by(table.kind == "reused", table.run_id)
        )
        with self.database.transaction() as connection:
            return connection.execute(query.limit(1)).scalar()

    # -- what models were asked, and what was learnt ---------------------------------------------------

    def find_exchange(self, run_id: str, key: str) -> Exchange | None:
        """Return the answer to this question in the run, or the failure it met; None: it never asked."""
        with self.database.transaction() as connection:
            return load_exchange(connection, run_id, key)

    def exchanges(self, run_id: str) -> list[Exchange]:
        """Every exchange of a run, in the order in which the questions were first asked."""
        with self.database.transaction() as connection:
            return load_exchanges(connection, run_id)

    def lessons(self, signature: str, target: str, limit: int = 5, before: str = "") -> list[Lesson]:
        """List what ended a kind of failure, most helpful first; what failed more often than it helped is left
        out. With `before` (ISO 8601, UTC) as it was known then.
        """
        with self.database.transaction() as connection:
            return helpful(connection, signature, target, before, limit)

    def all_lessons(self, target: str | None = None, before: str = "") -> list[KeptLesson]:
        """Every lesson (for a target), most helpful first, those that do not help too. With `before` (ISO 8601, UTC) as it
        was known then.
        """
        condition = true() if target is None else s.lessons.c.target == target
        with self.database.transaction() as connection:
            return load_lessons(connection, condition, before)

    def counts(self) -> dict[str, int]:
        """Rows per table, for people."""
        tables = (
            s.tasks, s.runs, s.candidates, s.units, s.results, s.environments, s.exchanges, s.lessons
        )  # fmt: skip
        with self.database.transaction() as connection:
            return {
                t.name: connection.execute(select(func.count()).select_from(t)).scalar_one() for t in tables
            }


_RUNS: Select[Any] = (
    select(s.runs, s.tasks.c.name.label("task_name"), s.environments.c.record.label("environment_record"))
    .join(s.tasks, s.tasks.c.id == s.runs.c.task_id)
    .join(s.environments, s.environments.c.id == s.runs.c.environment_id)
)
_NEWEST = (s.runs.c.started_at.desc(), s.runs.c.id.desc())


def select_run_results(run_id: str) -> Select[Any]:
    """The results of a run with their places, in the order in which they finished: rows for `load_entries`."""
    table = s.run_results.c
    return (
        select(s.results, table.run_id, table.number.label("place"), table.kind, table.elapsed)
        .join(s.run_results, table.result_number == s.results.c.number)
        .where(table.run_id == run_id)
        .order_by(table.number)
    )
