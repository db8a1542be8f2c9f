"""The judge's words of somebody else's solution."""

from __future__ import annotations

from typing import Literal

from ..records import UNEXPLAINED, Check, Ratio, Record, Result, Timing

# kernel: its own compiled code does the work; algorithmic: fewer operations than the reference;
# library: other library calls; none: the reference's operations, or own code that is never used; unexplained: own code that is
# faster than the reference's arithmetic allows, which is no win.
Label = Literal["kernel", "algorithmic", "library", "none", "unexplained"]


class Traced(Record):
    """Operations of one call, by name, as torch dispatched them; those that only move or allocate left out."""

    ops: dict[str, int] = {}  # "aten.mm" → calls
    flops: int = 0  # of these operations
    kernels: tuple[str, ...] = ()  # GPU kernels that ran, each name once
    foreign: int = 0  # times that memory held what no operation of torch had written
    own_ops: tuple[str, ...] = ()  # operations outside torch's own namespaces
    samples: dict[str, int] = {}  # object → samples of processor time over repeated calls; see `sampler.py`
    kernel_us: dict[str, float] = {}  # GPU kernel → microseconds of a call
    compiled: bool = False  # a region of torch.compile ran
    cuda_graph: bool = False  # a CUDA graph was launched


class Trace(Record):
    """The traces of the solution's call and of the reference's."""

    solution: Traced
    reference: Traced
    objects: tuple[str, ...] = ()  # shared objects of its own that were loaded
    generated: tuple[str, ...] = ()  # shared objects that torch.compile wrote


class SolutionVerdict(Record):
    solution: str  # the file, as it was given
    task: str
    target: str
    verdict: Literal["correct", "incorrect", "invalid"]  # invalid: not a measurement, or tampered with
    label: Label = "none"
    labels: tuple[
        str, ...
    ] = ()  # "general" / "specialised" / "contiguous-inputs-only", "deterministic" / …, precision, "other-strides", "ignores-parameters",
    # "no-secret-shape", "torch.compile", "cuda-graph", "quarantined"
    rule: str = ""  # that failed
    reasons: tuple[str, ...] = ()  # one line each
    speedup: dict[str, Ratio] = {}  # by baseline, and "best": over the fastest of them
    parameters: Literal["none", "name", "seed"] = "none"  # how it came by the reference's parameters
    isolation: str = ""
    checks: tuple[Check, ...] = ()
    timing: Timing | None = None
    trace: Trace | None = None
    hardware: str = ""
    seed: int = 0
    seconds: dict[str, float] = {}  # wall seconds by stage
    result: Result | None = None  # of a C++ or CUDA unit: what the judge of candidates says

    @property
    def win(self) -> bool:
        """Correct, explained, and the interval against the best baseline lies above 1."""
        best = self.speedup.get("best")
        return self.verdict == "correct" and self.label != UNEXPLAINED and best is not None and best.low > 1.0


def make_unit_verdict(solution: str, task: str, result: Result, hardware: str) -> SolutionVerdict:
    """The judge's result on a unit file in the same terms."""
    verdict, timing = result.verdict, result.timing
    outcomes = {"ok": "correct", "invalid": "invalid", "refused": "invalid"}
    labels = verdict.labels if verdict else ()
    ok = result.status == "ok"
    speedup = {r.baseline: r for r in timing.ratios} if timing and ok else {}
    if speedup and timing and timing.best:
        speedup["best"] = timing.best
    return SolutionVerdict.model_validate({
        "solution": solution, "task": task, "target": result.target,
        "verdict": outcomes.get(result.status, "incorrect"), "label": labels[0] if labels else "none",
        "labels": labels[1:], "reasons": tuple(dict.fromkeys([*([result.reason] if result.reason else []), *(verdict.reasons if verdict else ())])),
        "rule": "" if ok else find_failed_rule(result), "speedup": speedup,
        "isolation": verdict.isolation if verdict else "", "checks": verdict.checks if verdict else (),
        "timing": timing, "hardware": hardware, "seed": result.seed, "seconds": result.seconds, "result": result,
    })  # fmt: skip


def find_failed_rule(result: Result) -> str:
    """The check that failed, or the stage that ended it."""
    check = result.verdict.failed if result.verdict else None
    return check.rule if check else result.status
