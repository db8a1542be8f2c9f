"""The records that the archive hands back: a judged candidate (`Entry`), a run (`RunRecord`) and a lesson
(`KeptLesson`), all validated records.
"""

from __future__ import annotations

from typing import Any, Literal

from ..records import (
    Admission,
    BaselineTiming,
    Candidate,
    Environment,
    Hypothesis,
    Lesson,
    Limit,
    Record,
    Result,
    RunSummary,
)

Origin = Literal["local", "imported"]
Kind = Literal["search", "confirmation", "reused"]


class Entry(Record):
    """A candidate and one result of it. An imported result is unverified until the candidate is judged
    here.
    """

    candidate: Candidate
    result: Result
    origin: Origin = "local"
    run_id: str = ""  # the run it was asked for; empty when no run was named
    number: int = 0  # place in that run, from 1
    kind: Kind = "search"
    elapsed: float = 0.0  # seconds since the run began
    hypothesis: Hypothesis | None = None

    @property
    def verified_here(self) -> bool:
        return self.origin == "local"


class KeptLesson(Record):
    """A lesson with its counts so far. An imported one was learnt on another machine only."""

    lesson: Lesson
    learnt_at: str  # ISO 8601 UTC
    origin: Origin = "local"


class RunRecord(Record):
    """A run as it was begun, and what is known of it so far. `summary` is None until it is finished."""

    run_id: str
    task_id: str
    task_name: str
    target: str
    seed: int
    config: dict[str, Any]
    environment: Environment
    started_at: str  # ISO 8601 UTC
    finished_at: str = ""
    baselines: tuple[BaselineTiming, ...] = ()
    limit: Limit | None = None
    admission: Admission | None = None
    summary: RunSummary | None = None
    origin: Origin = "local"
    facts: dict[str, Any] = {}  # what its agents reasoned from; empty in runs from before it was kept

    @property
    def finished(self) -> bool:
        return self.summary is not None
