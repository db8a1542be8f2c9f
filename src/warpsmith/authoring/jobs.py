"""Records of the authors' jobs: what is asked for, and what is known of it so far.

A job has an id as soon as it is accepted, and whoever asked polls it or waits. It is kept in a journal until long after its end, so that
neither a client that hangs up nor a service that is killed loses it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..records import Record
from ..rewards.reward import Reward, RewardMode, RewardWeights
from .actions import Action, Entry
from .answers import MAX_NOTE_CHARACTERS, MAX_UNITS, Answer
from .author_views import CheckView, CodeView, ProfileView, VerdictView

JobKind = Literal["check", "screen", "verdict", "tune", "profile", "inspect", "score"]
JobState = Literal["queued", "running", "done", "failed", "cancelled"]
Confirm = Literal["none", "best", "all"]
MAX_BATCH = 32  # candidates of one job
MAX_SETTINGS = 256  # that one job tunes over
ENDED: tuple[JobState, ...] = ("done", "failed", "cancelled")


class Submission(Record):
    """One candidate as it is handed in: units for different regions."""

    units: tuple[Answer, ...] = Field(max_length=MAX_UNITS)
    onto: str = Field(default="", max_length=64)  # a candidate's id or "best": its other units are kept
    note: str = Field(default="", max_length=MAX_NOTE_CHARACTERS)  # why it should be faster


class JobRequest(Record):
    """Ask for a job. Its candidates are those handed in with it, then those that are named."""

    kind: JobKind
    task: str = Field(max_length=1000)  # a path, package.module:Class, a name of suite core, or archive:ID
    submissions: tuple[Submission, ...] = Field(default=(), max_length=MAX_BATCH)
    candidates: tuple[str, ...] = Field(default=(), max_length=MAX_BATCH)  # ids of what was handed in before
    actions: tuple[Action, ...] = Field(
        default=(), max_length=MAX_BATCH
    )  # of a score job, instead of candidates
    mode: RewardMode = "screening"  # of a score job: by which judgement rewards are given
    weights: RewardWeights = RewardWeights()  # of a score job
    confirm: Confirm = "none"  # of what was screened, tuned or scored: who also gets a verdict
    author: str = Field(default="agent", max_length=80)
    settings: int = Field(default=24, ge=1, le=MAX_SETTINGS)  # of tunables that a tune job screens
    key: str = Field(
        default="", max_length=64
    )  # asked for twice with one key it is one job, for who got no answer
    shared: bool = False  # other clients of the service may see the candidates


class JobView(Record):
    """A job as it is now. `rows` grow while it runs."""

    job_id: str
    kind: JobKind
    state: JobState
    task: str  # archive:ID
    name: str  # of the task
    target: str
    author: str
    submitted_at: str  # ISO 8601 UTC
    started_at: str = ""
    finished_at: str = ""
    stage: str = ""  # what is being done now
    error: str = ""  # of a failed job: one line
    error_kind: str = ""  # and its class
    candidates: tuple[str, ...] = ()
    confirm: Confirm = "none"
    settings: int = 0
    rows: tuple[
        VerdictView, ...
    ] = ()  # the latest word on each candidate; of a tune job also on what it tried
    checks: tuple[CheckView, ...] = ()
    profile: ProfileView | None = None
    code: tuple[CodeView, ...] = ()  # of what was inspected
    mode: RewardMode = "screening"
    weights: RewardWeights = RewardWeights()
    entries: tuple[Entry, ...] = ()  # of a score job: what became of each action
    rewards: tuple[Reward, ...] = ()  # of a score job that is done: one an action, in order
    best: str = ""  # the candidate whose lower bound is the highest
    notes: tuple[str, ...] = ()
    starts: int = 0  # how often it was begun: more than once after the service was killed

    @property
    def ended(self) -> bool:
        return self.state in ENDED
