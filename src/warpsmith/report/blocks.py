"""A run as plain typed blocks: everything a reader needs to believe, or doubt, its result.

`build.py` fills them from the archive; the renderers only lay them out.
"""

from __future__ import annotations

from typing import Any

from ..records import (
    BaselineTiming,
    Environment,
    IslandUse,
    Limit,
    OperatorUse,
    Ratio,
    Record,
    Translation,
)


class Claim(Record):
    """The fastest verified candidate. `text` is the one way in which its speedup is worded."""

    text: str
    eager_text: str
    label: str
    candidate_id: str
    labels: tuple[str, ...]
    speedup: Ratio
    speedup_eager: Ratio | None
    median_us: float
    low_us: float
    high_us: float
    limit_share: float
    confirmed: bool
    win: bool
    isolation: str


class BaselineRow(Record):
    timing: BaselineTiming
    speedup: Ratio | None  # of the claimed candidate over this baseline
    best: bool = False


class Attempt(Record):
    number: int
    candidate_id: str
    label: str
    operator: str
    kind: str
    origin: str
    status: str
    reason: str
    detail: str  # tunables, or where and how it failed
    median_us: float = 0.0
    speedup: Ratio | None = None
    limit_share: float = 0.0
    confirmed: bool = False
    elapsed: float = 0.0


class Failure(Record):
    """A stage that ended candidates: how many, and the reasons with their counts."""

    status: str
    count: int
    reasons: tuple[tuple[str, int], ...]


class TreeNode(Record):
    candidate_id: str
    parents: tuple[str, ...]
    number: int
    label: str
    operator: str
    status: str
    speedup: float  # against the best baseline: the median, or what is sure where that is unknown; 0 when not timed
    on_path: bool  # the claimed candidate or an ancestor of it
    ratio: Ratio | None = None  # of a correct one, with its interval


class ProgressPoint(Record):
    evaluations: int
    speedup: float  # the median, or what is sure where that is unknown; 0: nothing valid
    best: float  # the highest low end of an interval so far, search measurements only
    candidate_id: str = ""


class RooflinePoint(Record):
    name: str
    kind: str  # "baseline", "candidate", "best"
    intensity: float  # FLOP per byte of least traffic
    flops_per_second: float


class Source(Record):
    title: str
    language: str = "c++"
    nodes: tuple[str, ...]
    source: str
    values: dict[str, int]
    flags: tuple[str, ...]
    requires: tuple[str, ...]
    compiler_flags: tuple[str, ...]


class Evidence(Record):
    """One step of the way to the claimed candidate: what was believed and why, and what was then measured."""

    candidate_id: str
    label: str
    operator: str
    agent: str
    model: str
    reason: str
    bottleneck: str = ""
    expected_gain: float = 0.0
    evidence: tuple[str, ...] = ()
    measured: Ratio | None = None
    status: str = ""


class ChainStep(Record):
    """A hypothesis: why it was proposed, what was measured, what that taught, and what came of it."""

    number: int
    round: int
    title: str
    operator: str
    bottleneck: str = ""
    expected_gain: float = 0.0
    evidence: tuple[str, ...] = ()  # lines that no earlier step has told
    judged: dict[str, int] = {}  # candidates by outcome
    measured: Ratio | None = None  # of the fastest correct one, over its best baseline
    limit_share: float = 0.0
    candidate: int = 0  # its number in the run
    learnt: tuple[str, ...] = ()
    next: tuple[int, ...] = ()  # numbers of the steps that followed from it


class ProfileRow(Record):
    """A unit of the claimed candidate as it ran alone, and what the agents read in that."""

    technique: str
    nodes: tuple[str, ...]
    seconds: float  # of a call
    limit_share: float
    bottleneck: str
    balance: float | None = None
    vector_bits: int = 0
    vector_share: float | None = None
    resources: str = ""  # registers, spills and shared memory of its kernels on a GPU
    findings: tuple[str, ...] = ()


class Change(Record):
    """The difference between the claimed candidate's sources and its first parent's: lines of a unified difference."""

    candidate_id: str  # the parent's
    label: str
    number: int  # the parent's in the run; 0: it is of another run
    lines: tuple[str, ...]


class Replaced(Record):
    """The part of the reference that a unit stands for, the slowest unit first."""

    technique: str
    operations: tuple[str, ...]  # in ATen, one a line
    lines: tuple[int, ...]  # of the reference's text, where they come from
    rewrite: tuple[str, ...] = ()  # the operations that the unit does in their place, where it states them
    unit_us: float = 0.0  # of the unit alone; 0: not known


class Use(Record):
    """A way to use the winner: a title, shell commands, Python."""

    title: str
    shell: tuple[str, ...]
    python: tuple[str, ...] = ()


class CheckRow(Record):
    family: str
    variant: str
    checks: int
    passed: int
    worst_error: float  # as a share of the budget


class ExchangeRow(Record):
    """One question to a language model: what came of its answer, and what it cost."""

    number: int
    role: str
    model: str
    turn: int  # above 0: asked again, because the answer before could not be used
    outcome: str
    input_tokens: int
    output_tokens: int
    usd: float | None  # None: the price is not known
    seconds: float


class EliteRow(Record):
    """The best candidate of one behaviour, over all islands."""

    bottleneck: str
    technique: str
    cover: str  # regions, by their nodes
    speedup: float
    number: int  # in the run; 0: not among its entries
    islands: tuple[int, ...]  # that hold an elite of this behaviour


class Evolution(Record):
    """The course of the search."""

    operators: tuple[OperatorUse, ...] = ()
    islands: tuple[IslandUse, ...] = ()
    elites: tuple[EliteRow, ...] = ()
    rejected: dict[str, int] = {}  # which test found them not new → candidates
    saved: tuple[str, ...] = ()


class Report(Record):
    run_id: str
    task: str
    target: str
    status: str  # "win", "no-win", "too-busy", "failed", "unfinished"
    headline: str
    reason: str
    started_at: str
    finished_at: str
    stopped: str
    seconds: float
    evaluations: int
    seed: int
    origin: str
    hardware: str
    environment: Environment
    config: dict[str, Any]
    claim: Claim | None
    limit: Limit | None
    baselines: tuple[BaselineRow, ...]
    attempts: tuple[Attempt, ...]
    stages: dict[str, int]
    seconds_by_stage: dict[str, float]
    failures: tuple[Failure, ...]
    lineage: tuple[TreeNode, ...]
    progress: tuple[ProgressPoint, ...]
    roofline: tuple[RooflinePoint, ...]
    sources: tuple[Source, ...]
    evidence: tuple[Evidence, ...]
    chain: tuple[ChainStep, ...] = ()
    exchanges: tuple[ExchangeRow, ...] = ()
    translation: Translation | None = None
    evolution: Evolution | None = None
    checks: tuple[CheckRow, ...]
    mutants: dict[str, str]
    admitted: bool
    warnings: tuple[str, ...]
    commands: tuple[str, ...]
    left: tuple[str, ...] = ()  # parts of the module that stay ATen, and why
    profile: tuple[ProfileRow, ...] = ()
    profile_notes: tuple[str, ...] = ()
    change: Change | None = None
    replaced: tuple[Replaced, ...] = ()
    reference: str = ""  # the text of the task's file
    uses: tuple[Use, ...] = ()
