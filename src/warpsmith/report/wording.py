"""How measured things are worded. A speedup is only ever printed through `claim`, so it never loses what
qualifies it.
"""

from __future__ import annotations

from ..records import Candidate, Environment, Ratio

BASELINE_NAMES = {
    "eager": "PyTorch eager",
    "compile": "torch.compile",
    "compile-max-autotune": "torch.compile max-autotune",
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


def interval(ratio: Ratio) -> str:
    return f"{ratio.median:.2f}× [{ratio.low:.2f}, {ratio.high:.2f}]"


def hardware(environment: Environment) -> str:
    threads = "thread" if environment.threads == 1 else "threads"
    return f"{environment.device or environment.cpu}, {environment.threads} {threads}"


def share(value: float) -> str:
    return f"{100 * value:.0f}%"


def claim(ratio: Ratio, environment: Environment, limit_share: float) -> str:
    """A speedup with its confidence interval, baseline, hardware and share of the physical limit."""
    return (
        f"{ratio.median:.2f}× {baseline_name(ratio.baseline)} "
        f"(95% interval {ratio.low:.2f} to {ratio.high:.2f}) "
        f"on {hardware(environment)}, at {share(limit_share)} of the machine's limit"
    )


def label(candidate: Candidate) -> str:
    """A candidate's techniques, one a unit."""
    named = [u.technique or u.family or u.region.nodes[-1] for u in candidate.units]
    counted = {name: named.count(name) for name in named}
    return " + ".join(f"{n}× {name}" if n > 1 else name for name, n in counted.items()) or "all ATen"
