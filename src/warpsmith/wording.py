"""The wording of measured things. A speedup is only ever printed through `claim`, so it never loses what
qualifies it.
"""

from __future__ import annotations

from .progress import counted
from .records import Candidate, Environment, Ratio
from .records.intervals import describe_ratio, describe_speed, is_unknown

FAR_FROM_LIMIT = 0.05  # a best baseline below this share of the limit makes a big ratio cheap
BASELINE_NAMES = {
    "eager": "PyTorch eager",
    "compile": "torch.compile",
    "compile-max-autotune": "torch.compile max-autotune",
    "rewritten": "rewritten reference",
}


def baseline_name(name: str) -> str:
    return BASELINE_NAMES.get(name, name)


def microseconds(value: float) -> str:
    """A duration given in microseconds, in the unit that reads best."""
    if value >= 1e6:
        return f"{value / 1e6:.3g} s"
    if value >= 1e3:
        return f"{value / 1e3:.3g} ms"
    return f"{value:.3g} µs"


def flops(per_second: float) -> str:
    """A rate of arithmetic, given in FLOP/s, in the unit that reads best."""
    return f"{per_second / 1e12:.3g} TFLOP/s" if per_second >= 1e12 else f"{per_second / 1e9:.3g} GFLOP/s"


def interval(ratio: Ratio) -> str:
    return describe_ratio(ratio, "×")


def speed(ratio: Ratio) -> str:
    """A speedup where there is no room for its interval."""
    return describe_speed(ratio, "×")


def hardware(environment: Environment) -> str:
    return f"{environment.hardware}, {counted(environment.threads, 'thread')}"


def share(value: float) -> str:
    return f"{100 * value:.0f}%"


def claim(ratio: Ratio, environment: Environment, limit_share: float) -> str:
    """A speedup with its confidence interval, baseline, hardware and share of the physical limit."""
    if is_unknown(ratio):
        return f"{interval(ratio)} over {baseline_name(ratio.baseline)} on {hardware(environment)}"
    return (
        f"{ratio.median:.2f}× {baseline_name(ratio.baseline)} "
        f"(95% interval {ratio.low:.2f} to {ratio.high:.2f}) "
        f"on {hardware(environment)}, at {share(limit_share)} of the machine's limit"
    )


def slow_baseline(limit_share: float) -> str:
    """Return what to say when the best baseline itself reaches little of the limit; empty when it reaches enough."""
    if not 0 < limit_share < FAR_FROM_LIMIT:
        return ""
    return (
        f"The best baseline reaches only {100 * limit_share:.2g}% of the machine's limit: "
        "a large ratio says as much about the baseline as about the kernel."
    )


def label(candidate: Candidate) -> str:
    """A candidate's techniques, one a unit."""
    named = [u.technique or u.family or u.region.nodes[-1] for u in candidate.units]
    counted = {name: named.count(name) for name in named}
    return " + ".join(f"{n}× {name}" if n > 1 else name for name, n in counted.items()) or "all ATen"
