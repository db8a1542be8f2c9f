"""The reading half of the archive: results, winners, stepping stones, lineages and runs. Every query by
task or signature is indexed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select, text, true

from ..errors import ArchiveError
from ..records import Candidate, Environment, Exchange, Hypothesis, Lesson, Result, Task
from . import schema as s
from .engine import Database
from .entries import Entry, KeptLesson, RunRecord
from .learning import helpful, load_exchange, load_exchanges, load_lessons
from .migrations import migrate
from .rows import load_candidate, load_entries, load_record, run_record


class ArchiveReader:
    """Opens an archive (a path, or sqlite:///path), creating it when there is none and upgrading an older
    one.

    Raises ArchiveError, one line, when it is damaged, newer than this program, read-only, or not an
    archive at all.
    """

    def __init__(self, where: Path | str) -> None:
        self.database = Database(where)
        with self.database.transaction(write=True) as connection:
            migrate(connection, self.database.name)

    @property
    def path(self) -> Path:
        return self.database.path

    def close(self) -> None:
        self.database.close()

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

    # -- results -----------------------------------------------------------------------------------

    def results(self, task_id: str, target: str) -> list[Entry]:
        """Every result of a task, imported ones too, oldest first."""
        here = (s.results.c.task_id == task_id) & (s.results.c.target == target)
        return self._entries(select(s.results).where(here).order_by(s.results.c.number))

    def judged_keys(self, task_id: str, target: str, environment: str) -> dict[str, Result]:
        """Content key → latest result judged in this environment (an Environment id), so that no work is
        repeated.

        Results with status "error" are left out (the judge failed, not the candidate), and so are
        imported ones.
        """
        r = s.results.c
        here = (r.task_id == task_id) & (r.target == target) & (r.environment_id == environment)
        query = (
            select(r.content_key, r.record)
            .where(here, r.status != "error", r.origin == "local")
            .order_by(r.number)
        )
        with self.database.transaction() as connection:
            return {key: Result.model_validate_json(record) for key, record in connection.execute(query)}

    def winners(
        self, task_id: str, target: str, environment: str = "", include_imported: bool = False
    ) -> list[Entry]:
        """Confirmed wins, one per content key (its latest confirmation): this environment first, then by
        speedup.

        Imported wins come last, and only when asked for: they are unverified until judged here.
        """
        r = s.results.c
        wanted: ColumnElement[bool] = (r.task_id == task_id) & (r.target == target) & (r.status != "error")
        wanted = wanted & (
            r.confirmed | (r.status != "ok")
        )  # a later failure outweighs an earlier confirmation
        if not include_imported:
            wanted = wanted & (r.origin == "local")
        latest = select(func.max(r.number)).where(wanted).group_by(r.content_key, r.environment_id, r.origin)
        entries = self._entries(select(s.results).where(r.number.in_(latest.scalar_subquery()), r.win))
        entries.sort(key=lambda e: (not e.verified_here, e.result.environment != environment, -_speedup(e)))
        best: dict[str, Entry] = {}
        for entry in entries:
            best.setdefault(entry.candidate.content_key, entry)
        return list(best.values())

    def by_signature(self, signature: str, target: str | None = None, limit: int = 50) -> list[Entry]:
        """Stepping stones: correct results, of any task, with a unit for a region of this signature;
        fastest first.
        """
        holding = (
            select(s.candidate_units.c.candidate_id)
            .join(s.units, s.units.c.id == s.candidate_units.c.unit_id)
            .where(s.units.c.signature == signature)
        )
        query = select(s.results).where(s.results.c.candidate_id.in_(holding), s.results.c.status == "ok")
        if target is not None:
            query = query.where(s.results.c.target == target)
        return self._entries(query.order_by(s.results.c.speedup.desc(), s.results.c.number).limit(limit))

    # -- lineage -----------------------------------------------------------------------------------

    def ancestors(self, candidate_id: str) -> list[Candidate]:
        """The candidate's parents, their parents and so on, each once, nearest first, as far as they are
        stored.
        """
        query = text(
            "WITH RECURSIVE up (id, depth) AS (SELECT :id, 0 UNION SELECT p.parent_id, up.depth + 1 FROM up "
            "JOIN candidate_parents p ON p.candidate_id = up.id WHERE up.depth < 10000) "
            "SELECT id FROM up WHERE depth > 0 GROUP BY id ORDER BY MIN(depth), id"
        )
        with self.database.transaction() as connection:
            ids = list(connection.execute(query, {"id": candidate_id}).scalars())
            found = [load_candidate(connection, ancestor) for ancestor in ids if ancestor != candidate_id]
        return [candidate for candidate in found if candidate is not None]

    def children(self, candidate_id: str) -> list[Candidate]:
        parents = s.candidate_parents.c
        query = (
            select(parents.candidate_id)
            .where(parents.parent_id == candidate_id)
            .order_by(parents.candidate_id)
        )
        with self.database.transaction() as connection:
            found = [load_candidate(connection, child) for child in connection.execute(query).scalars().all()]
        return [candidate for candidate in found if candidate is not None]

    # -- runs --------------------------------------------------------------------------------------

    def runs(self, task_id: str | None = None) -> list[RunRecord]:
        """Every run (of a task), newest first."""
        query = _RUNS.order_by(s.runs.c.started_at.desc(), text("runs.rowid DESC"))
        if task_id is not None:
            query = query.where(s.runs.c.task_id == task_id)
        with self.database.transaction() as connection:
            return [run_record(row) for row in connection.execute(query)]

    def run(self, run_id: str | None = None) -> RunRecord:
        """The run with this id, or whose id begins so; None: the latest. Raises ArchiveError when there
        is none.
        """
        query = _RUNS.order_by(s.runs.c.started_at.desc(), text("runs.rowid DESC"))
        if run_id is not None:
            query = query.where(s.runs.c.id.startswith(run_id, autoescape=True))
        with self.database.transaction() as connection:
            found = [run_record(row) for row in connection.execute(query.limit(2))]
        exact = [run for run in found if run.run_id == run_id]
        if not found:
            what = f"no run {run_id}" if run_id else "no runs yet"
            raise ArchiveError(
                f"{what} in {self.database.name}: `warpsmith archive list` shows what it holds"
            )
        if run_id is not None and not exact and len(found) > 1:
            raise ArchiveError(f"more than one run begins with {run_id}: give more of its id")
        return (exact or found)[0]

    def run_entries(self, run_id: str) -> list[Entry]:
        """What a run judged (or reused), in the order in which it finished."""
        place = s.run_results.c
        query = (
            select(s.results, place.run_id, place.number.label("place"), place.kind, place.elapsed)
            .join(s.run_results, place.result_number == s.results.c.number)
            .where(place.run_id == run_id)
            .order_by(place.number)
        )
        return self._entries(query)

    # -- what models were asked, and what was learnt ---------------------------------------------------

    def find_exchange(self, run_id: str, key: str) -> Exchange | None:
        """What the run was answered to this question, or the failure it met; None: it never asked."""
        with self.database.transaction() as connection:
            return load_exchange(connection, run_id, key)

    def exchanges(self, run_id: str) -> list[Exchange]:
        """Every exchange of a run, in the order in which the questions were first asked."""
        with self.database.transaction() as connection:
            return load_exchanges(connection, run_id)

    def lessons(self, signature: str, target: str, limit: int = 5, before: str = "") -> list[Lesson]:
        """What ended a kind of failure, most helpful first; what failed more often than it helped is left
        out. With `before` (ISO 8601, UTC) as it was known then.
        """
        with self.database.transaction() as connection:
            return helpful(connection, signature, target, before, limit)

    def all_lessons(self, target: str | None = None) -> list[KeptLesson]:
        """Every lesson (for a target), most helpful first, those that do not help too."""
        wanted = true() if target is None else s.lessons.c.target == target
        with self.database.transaction() as connection:
            return load_lessons(connection, wanted)

    def counts(self) -> dict[str, int]:
        """Rows per table, for people."""
        tables = (
            s.tasks, s.runs, s.candidates, s.units, s.results, s.environments, s.exchanges, s.lessons
        )  # fmt: skip
        with self.database.transaction() as connection:
            return {
                t.name: connection.execute(select(func.count()).select_from(t)).scalar_one() for t in tables
            }

    def _entries(self, query: Select[Any]) -> list[Entry]:
        with self.database.transaction() as connection:
            return load_entries(connection, connection.execute(query).all())


_RUNS: Select[Any] = (
    select(s.runs, s.tasks.c.name.label("task_name"), s.environments.c.record.label("environment_record"))
    .join(s.tasks, s.tasks.c.id == s.runs.c.task_id)
    .join(s.environments, s.environments.c.id == s.runs.c.environment_id)
)


def _speedup(entry: Entry) -> float:
    ratio = entry.result.speedup
    return ratio.median if ratio is not None else 0.0
