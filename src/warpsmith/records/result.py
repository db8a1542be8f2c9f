"""Records of the judge's results. Results nest as the pipeline nests; a stage not reached is None."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from .limit import Limit
from .named import NamedRecord
from .record import Record
from .technique_names import current_technique, current_values

# A result's status names the stage that ended it. "ok": correct and timed.
Status = Literal[
    "ok",
    "screened",  # right where screening looked, its units timed alone: worth a verdict, which it does not have
    "build-failed",  # compiler or linker said no
    "refused",  # forbidden symbol or flag, or the correctness agent's review
    "crashed",  # the runner died (signal)
    "timeout",  # the runner was killed for time
    "incorrect",  # wrong bytes
    "invalid",  # evidence of cheating or disagreeing clocks: not a measurement
    "error",  # the judge itself could not go on (disk full, worker lost)
]
STATUSES: tuple[Status, ...] = (
    "ok", "screened", "build-failed", "refused", "crashed", "timeout", "incorrect", "invalid", "error",
)  # fmt: skip


class Diagnostic(Record):
    line: int  # in the unit's source, from 1; 0: not known
    kind: str  # "error", "warning", "link", "symbol"
    message: str


class KernelResources(Record):
    """The resources of one GPU kernel of a build, as its assembler reports them."""

    name: str  # the function's own name, for people
    symbol: str  # as mangled
    arch: str  # "sm_90a"
    registers: int  # per thread
    stack_bytes: int = 0  # per thread
    spill_store_bytes: int = 0  # per thread
    spill_load_bytes: int = 0
    shared_bytes: int = 0  # per block, static
    constant_bytes: int = 0  # where the assembler says
    barriers: int = 0


class Build(Record):
    unit_key: str  # Unit.code_key
    variant: str
    ok: bool
    library: str = ""  # path in the build cache; empty on failure
    seconds: float = 0.0
    cached: bool = False
    compiler: str = ""  # signature: name, version
    flags: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    kernels: tuple[KernelResources, ...] = ()  # of a GPU build


UNEXPLAINED = "unexplained"  # a label: faster than the reference's arithmetic, and nothing says why


class Check(Record):
    """One comparison: an input family at one seed on one variant."""

    variant: str
    family: str
    where: str  # "whole" or the unit's region id
    ok: bool
    rule: str = (
        ""  # the rule that failed: "nan-poison", "guard", "input-mutated", "budget", "nondeterministic", …
    )
    detail: str = ""  # where, how far, likely cause
    error: float = 0.0  # worst error as a share of the budget; above 1 fails
    ulp: float = 0.0


class Verdict(Record):
    correct: bool
    checks: tuple[Check, ...]
    labels: tuple[
        str, ...
    ] = ()  # "kernel" / "library" / "algorithmic" / "unexplained"; "general" / "specialised"; "deterministic"
    isolation: str = ""  # which level was in force
    reasons: tuple[str, ...] = ()  # of a failure, or of the label "unexplained", one line each

    @property
    def failed(self) -> Check | None:
        return next((c for c in self.checks if not c.ok), None)


class Ratio(Record):
    """Speedup of a candidate over one baseline: above 1 is faster."""

    baseline: str  # "eager", "compile", "compile-max-autotune"
    median: float
    low: float  # bootstrap confidence interval
    high: float

    def scale(self, factor: float) -> Ratio:
        """Copy it for a baseline that takes so many times as long."""
        return self.model_copy(update={k: factor * getattr(self, k) for k in ("median", "low", "high")})


class BaselineTiming(Record):
    name: str  # "eager", "compile", "compile-max-autotune", "rewritten"
    ok: bool
    median_us: float = 0.0
    low_us: float = 0.0
    high_us: float = 0.0
    compile_seconds: float = 0.0
    reason: str = ""  # why not ok
    limit_share: float = 0.0

    def restate(self, limit: Limit) -> BaselineTiming:
        """Copy it with its share of this limit."""
        if not self.ok or not self.median_us:
            return self
        return self.model_copy(update={"limit_share": limit.share(self.median_us)})


class Timing(Record):
    median_us: float  # whole module, as deployed
    low_us: float
    high_us: float
    cache: Literal["cold", "warm"]
    samples: int
    ratios: tuple[Ratio, ...]  # against each baseline measured side by side in this run
    unit_us: dict[str, float] = {}  # region id → median time of the unit alone in the isolated runner
    warm_us: float | None = None
    wall_share: float = 1.0  # sum of the process's own times over the supervisor's wall clock
    limit_share: float = 0.0  # speed-of-light floor over median
    limit: Limit | None = None  # that floor; None: from before results named it
    confirmed: bool = False  # measured again in fresh processes
    drift: float = 0.0  # spread of the baseline over the run
    isolation: str = ""  # which level was in force in the candidate's timing process
    charged_us: float = (
        0.0  # to a call on average, for work on a GPU that outlasted it, or for work before the clock started
    )
    rivals_charged_us: float = 0.0  # the same of the baselines beside it
    busy: str = ""  # why the machine was too busy for a claim: the ratios then have no lower end
    gpu_state: dict[str, float] = {}  # clocks (MHz), temperature (°C), power (W) right after the calls
    rewritten: BaselineTiming | None = None  # the reference with an algorithmic candidate's own rewrite
    estimate: Ratio | None = (
        None  # of a screened candidate: what its units' times alone promise of the whole; nothing measured
    )

    def ratio(self, baseline: str) -> Ratio | None:
        return next((r for r in self.ratios if r.baseline == baseline), None)

    def restate(self, limit: Limit) -> Timing:
        """Copy it with its shares of this limit."""
        rewritten = self.rewritten.restate(limit) if self.rewritten is not None else None
        shares = {"limit": limit, "limit_share": limit.share(self.median_us), "rewritten": rewritten}
        return self.model_copy(update=shares)

    @property
    def best(self) -> Ratio | None:
        """Against the fastest baseline: the smallest ratio."""
        return min(self.ratios, key=lambda r: r.median, default=None)


class RegionProfile(NamedRecord):
    """The profile of one unit that ran alone, and of its library."""

    region: str  # region id
    seconds: float  # median of a call, caches cold
    least_bytes: int  # that the region must move: inputs once, outputs once
    flops: int  # of the reference
    limit_share: float  # speed-of-light time of the region over `seconds`
    bottleneck: str  # "memory" or "compute": which of the two makes that limit
    family: str = ""  # of the unit, with its technique, tunables and flags
    technique: str = ""
    values: dict[str, int] = {}
    flags: tuple[str, ...] = ()
    threads: int = 0  # that the unit was given
    balance: float | None = None  # processor time of a thread on average over that of the busiest: 1 is even
    register_bits: int = 0  # of this machine's vector registers
    vector_bits: int = 0  # that most of its floating-point instructions work on at once; 0: not known
    vector_share: float | None = None  # of its floating-point instructions: those that work on vectors
    calls: tuple[str, ...] = ()  # library functions for single numbers, as expf
    missing: tuple[str, ...] = ()  # what could not be looked at, with the reason

    def translate_names(self) -> dict[str, str]:
        return {"technique": current_technique(self.family, self.technique)}

    @property
    def current_values(self) -> dict[str, int]:
        """Its values by the names that the technique's tunables have today."""
        return current_values(self.family, self.technique, self.values)

    def restate(self, before: Limit, after: Limit) -> RegionProfile:
        """Copy it with its share by the rates of another limit of the same task: what bounds the region scales as that rate."""
        bytes_s, flops_s = self.least_bytes / after.bytes_per_second, self.flops / after.flops_per_second
        seconds = self.limit_share * self.seconds
        if self.bottleneck == "memory":
            bytes_s = seconds * before.bytes_per_second / after.bytes_per_second
        else:
            flops_s = seconds * before.flops_per_second / after.flops_per_second
        share = max(bytes_s, flops_s) / self.seconds
        return self.model_copy(
            update={"limit_share": share, "bottleneck": "compute" if flops_s > bytes_s else "memory"}
        )


class Profile(Record):
    regions: tuple[RegionProfile, ...] = ()
    notes: tuple[str, ...] = ()


class Result(Record):
    candidate_id: str
    content_key: str
    task_id: str
    target: str
    status: Status
    reason: str = ""  # one line; empty when ok
    builds: tuple[Build, ...] = ()
    verdict: Verdict | None = None
    timing: Timing | None = None
    profile: Profile | None = None
    seconds: dict[str, float] = {}  # wall seconds by stage: build, verify, time
    environment: str = ""  # Environment id
    seed: int = 0
    judged_at: str = ""  # ISO 8601 UTC

    @model_validator(mode="after")
    def _status_ties_stages(self) -> Result:
        if self.status == "screened" and (
            self.verdict is not None
            or self.timing is None
            or self.timing.ratios
            or self.timing.estimate is None
        ):
            raise ValueError("a screened result has an estimate, and neither a verdict nor a speedup")
        if self.status == "ok" and (self.verdict is None or not self.verdict.correct or self.timing is None):
            raise ValueError("an ok result has a correct verdict and a timing")
        if self.status != "ok" and not self.reason:
            raise ValueError("a result that is not ok says why")
        return self

    def restate(self, limit: Limit) -> Result:
        """Copy it with every share by this limit, the one that stands beside it where it is shown. It is the same result and
        keeps its id. A result that names no limit stays as it was written.
        """
        timing = self.timing
        if timing is None or timing.limit is None or timing.limit == limit:
            return self
        before, profile = timing.limit, self.profile
        if profile is not None:
            profile = profile.model_copy(
                update={"regions": tuple(r.restate(before, limit) for r in profile.regions)}
            )
        copy = self.model_copy(update={"timing": timing.restate(limit), "profile": profile})
        copy.__dict__["id"] = self.id
        return copy

    @property
    def speedup(self) -> Ratio | None:
        return self.timing.best if self.timing is not None else None

    @property
    def passed(self) -> bool:
        """True if its units were right wherever somebody looked, and were timed."""
        return self.status in ("ok", "screened")

    @property
    def confirmed(self) -> bool:
        """True if it was measured again in fresh processes."""
        return self.timing is not None and self.timing.confirmed

    @property
    def promise(self) -> Ratio | None:
        """The ratio that a search goes by: the speedup, or of a screened candidate the estimate of it; None for a failure."""
        if self.status == "screened":
            return self.timing.estimate if self.timing is not None else None
        return self.speedup if self.status == "ok" else None

    @property
    def win(self) -> bool:
        """Correct, the interval against the best baseline lies above 1, and how it can be is explained."""
        explained = self.verdict is None or UNEXPLAINED not in self.verdict.labels
        return self.status == "ok" and explained and self.speedup is not None and self.speedup.low > 1.0


NO_WIN_QUARANTINED = "the task is quarantined: a wrong answer can pass on it, so no speedup counts"


class Admission(Record):
    """The admission of a task: it counts only if each mutant fails on it."""

    admitted: bool
    mutants: dict[str, str]  # mutant → the rule that caught it, or "admitted" when none did
    reasons: tuple[str, ...] = ()
    unchecked: tuple[
        str, ...
    ] = ()  # what a bound of time left out; who is not admitted for that has no reason


class Environment(Record):
    """The machine and software a result was measured on."""

    cpu: str
    cores: int
    threads: int
    memory_gb: float
    simd: str
    os: str
    python: str
    torch: str
    compiler: str
    device: str = ""
    warpsmith: str = ""
    gpu_driver: str = ""  # where the device is a GPU

    @property
    def hardware(self) -> str:
        """The name of the measured device: the GPU's, or the processor's."""
        return self.device or self.cpu
