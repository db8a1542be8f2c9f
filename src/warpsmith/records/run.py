"""Budgets and run summaries."""

from __future__ import annotations

from typing import Literal

from .base import Record
from .result import Ratio


class Budget(Record):
    """What a run may spend; evaluations, time and money are separate. None: no limit."""

    evaluations: int | None = 60
    seconds: float | None = 120.0
    usd: float | None = None  # for language models
    tokens: int | None = None  # of language models, input and output together


class Best(Record):
    label: str  # technique names of the units
    candidate_id: str
    labels: tuple[str, ...]
    speedup: Ratio  # against the best baseline
    speedup_eager: Ratio
    median_us: float
    limit_share: float
    confirmed: bool
    speedup_rewritten: Ratio | None = None  # of an algorithmic win: over the reference with the same rewrite


class Translation(Record):
    """From modules to first working kernels, by a model, in the first round."""

    regions: int  # problems
    attempted: int  # units asked for
    correct_first: int  # by the first answer, without repair
    correct: int  # also after repair
    pass_at: dict[int, float] = {}  # k → pass@k over first answers, averaged over regions
    initial_speedup: float = (
        0.0  # of the first correct candidate, against the best baseline; 0: there was none
    )


class RunSummary(Record):
    """What `optimize` returns and `--json` prints."""

    run_id: str
    task: str
    target: str
    status: Literal["win", "no-win", "failed"]
    reason: str = ""
    best: Best | None = None
    baselines: dict[str, float] = {}  # name → median microseconds
    evaluations: int = 0
    stages: dict[str, int] = {}  # counts by Result.status
    seconds: float = 0.0
    seconds_by_stage: dict[str, float] = {}
    limit_us: float = 0.0
    seed: int = 0
    stopped: str = ""  # why the search stopped
    admitted: bool = True
    hardware: str = ""
    fault: str = ""  # why a language model ended the run before its time
    exchanges: int = 0  # with language models
    tokens: int = 0
    usd: float | None = 0.0  # None: a price is not known
    translation: Translation | None = None
