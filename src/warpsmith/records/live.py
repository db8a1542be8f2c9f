"""The state of what works now, as its process tells it, and what people ask of it meanwhile."""

from __future__ import annotations

from typing import Literal

from .record import Record
from .result import Ratio
from .run import Budget

ActivityKind = Literal["run", "suite", "authors"]
CandidateStage = Literal["building", "waiting", "screening", "verifying", "timing", "confirming"]
RequestKind = Literal["stop", "pin", "hypothesis", "kernel"]
RequestStatus = Literal["waiting", "taken", "done", "refused"]


class LiveCandidate(Record):
    """A candidate that is being worked on."""

    candidate_id: str
    label: str
    stage: CandidateStage


class LiveState(Record):
    """What a run, a suite or a session of authors is doing. It says no more than its process knows at that moment."""

    stage: str = ""  # in words: "timing baseline compile"
    candidates: tuple[LiveCandidate, ...] = ()  # being worked on
    outcomes: dict[str, int] = {}  # how many candidates ended how, by Result.status
    judged: int = 0  # candidates with a verdict, of the budget's
    screened: int = 0
    budget: Budget | None = None
    search_ends_at: float | None = None  # seconds since 1970; None: it has no limit, or has not begun
    tokens: int = 0
    usd: float = 0.0
    best: Ratio | None = None  # over its baseline, the candidate with the highest low end
    best_id: str = ""
    best_label: str = ""
    best_confirmed: bool = False
    best_limit_share: float = 0.0  # of the physical limit, at the median
    seconds_by_stage: dict[str, float] = {}  # of a run, as in its summary
    pinned: str = ""  # id of the candidate that is a parent whatever its rank
    lane: int = 0  # of a suite, from 1; 0: none
    gpu: str = ""
    authors: tuple[str, ...] = ()  # of a session
    runs: int = 0  # of a suite, in all
    runs_done: int = 0
    waiting: tuple[str, ...] = ()  # runs of a suite that are not done, in order


class Activity(Record):
    """A process's work with its state. `ended_at` stays empty where the process was killed."""

    activity_id: str
    kind: ActivityKind
    parent: str = ""  # the suite that a run belongs to
    run_id: str = ""
    title: str
    target: str
    owner: str
    started_at: str  # ISO 8601 UTC
    seen_at: float  # seconds since 1970
    ended_at: str = ""
    ending: str = ""
    state: LiveState = LiveState()


class Request(Record):
    """A wish of a person. What it asks for is done, or refused with the reason."""

    number: int
    activity_id: str
    run_id: str
    kind: RequestKind
    body: dict[str, str]
    made_at: str
    status: RequestStatus
    round: int = -1  # before which it was taken; -1: it was not
    answered_at: str = ""
    answer: str = ""
