"""Budgets and run summaries."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

from .limit import UsedPeaks
from .record import Record
from .result import Ratio
from .technique_names import current_branch

Branch = Annotated[str, AfterValidator(current_branch)]  # families and techniques by today's names


TOO_BUSY: Literal["too-busy"] = (
    "too-busy"  # the status of a run that could confirm nothing, neither a win nor none
)


class Budget(Record):
    """The limits of one run. None is no limit; the first limit that is reached ends the search.

    The first round is always judged, and one or two candidates are always confirmed, so a run may take longer than `seconds`.
    """

    evaluations: int | None = 60  # candidates judged
    seconds: float | None = 120.0  # wall time, baselines included; a fifth is kept to confirm
    usd: float | None = None  # dollars for language models
    tokens: int | None = None  # of language models, input and output together


class Best(Record):
    label: Branch  # technique names of the units
    candidate_id: str
    labels: tuple[str, ...]
    speedup: Ratio  # against the best baseline
    speedup_eager: Ratio
    median_us: float
    limit_share: float
    confirmed: bool
    speedup_rewritten: Ratio | None = None  # of an algorithmic win: over the reference with the same rewrite
    ratios: tuple[Ratio, ...] = ()  # against each baseline; empty in summaries of version 0.1


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


class OperatorUse(Record):
    """The budget of one operator of the search and its gain."""

    operator: str
    bred: int = 0  # candidates it made
    judged: int = 0  # of these, judged and counted in the budget; the others were known or not novel
    ok: int = 0  # correct and timed
    gain: float = 0.0  # verified: sum of log speedups over the best before, by the intervals' low ends
    cost: float = 0.0  # evaluations
    rounds: tuple[int, ...] = ()  # candidates of it judged in each round, from round 0


class Migration(Record):
    round: int  # after which it was made, from 0
    source: int  # island, from 0
    target: int
    candidate_id: str


class Elite(Record):
    """The best of one behaviour on an island."""

    bottleneck: str
    technique: Branch
    cover: str  # ids of the regions that have units
    candidate_id: str
    speedup: float  # against the best baseline


class IslandUse(Record):
    """One island of the population at the end of a run."""

    candidates: int  # correct and timed, bred there or arrived
    best: float = 0.0  # speedup; 0: none
    label: Branch = ""  # techniques of the best
    elites: tuple[Elite, ...] = ()
    arrived: tuple[Migration, ...] = ()


SEARCH_STAGES = ("screening", "judging", "proposing")


class RunSummary(Record):
    """The summary of a run, which `optimize` returns and `--json` prints."""

    run_id: str
    task: str
    target: str
    status: Literal["win", "no-win", "too-busy", "failed"]
    reason: str = ""
    best: Best | None = None
    baselines: dict[str, float] = {}  # name → median microseconds
    evaluations: int = 0  # candidates with a verdict
    screened: int = 0  # candidates that were screened; those with a verdict were, too
    stages: dict[str, int] = {}  # counts by Result.status
    seconds: float = 0.0
    seconds_by_stage: dict[str, float] = {}  # of SEARCH_STAGES, of confirmations, and of the set-up before
    limit_us: float = 0.0  # which every share of the summary is of
    peaks: UsedPeaks | None = None  # that this limit is computed from
    seed: int = 0
    stopped: str = ""  # why the search stopped
    admitted: bool = True
    hardware: str = ""
    threads: int = 0  # of the processor that candidates and baselines may use; 0: not noted
    fault: str = ""  # why a language model ended the run before its time
    exchanges: int = 0  # with language models
    base_url: str = ""  # the server that these were asked at, where it was named
    tokens: int = 0
    usd: float | None = 0.0  # None: a price is not known
    translation: Translation | None = None
    operators: tuple[OperatorUse, ...] = ()
    islands: tuple[IslandUse, ...] = ()
    rejected: dict[str, int] = {}  # not judged, for they were not novel: why → how many
    saved: tuple[str, ...] = ()  # what steering by the limit left alone and did not spend, a line each
    left: tuple[str, ...] = ()  # parts of the module that stay ATen, and why, a line each

    @property
    def seconds_by_phase(self) -> dict[str, float]:
        """Seconds of the set-up, the search and the confirmation, where they were told apart."""
        stages, search = self.seconds_by_stage, SEARCH_STAGES
        if "proposing" not in stages:
            return {}
        set_up = sum(s for name, s in stages.items() if name not in (*search, "confirmation"))
        searching = sum(stages.get(name, 0.0) for name in search)
        return {"set-up": set_up, "search": searching, "confirmation": stages.get("confirmation", 0.0)}
