"""Summaries of a made-up suite."""

from __future__ import annotations

from typing import Any

from warpsmith.records import Best, Ratio, RunSummary


def ratio(baseline: str, median: float, low: float = 0.0, high: float = 0.0) -> Ratio:
    return Ratio(baseline=baseline, median=median, low=low or median * 0.95, high=high or median * 1.05)


def summary(
    name: str, best: float | None, low: float = 0.0, eager: float = 0.0, reason: str = "", kind: str = "kernel",
    **changes: Any,
) -> RunSummary:  # fmt: skip
    """A run whose fastest verified candidate is `best` times as fast as torch.compile; None: there is none."""
    if best is None:
        return RunSummary(
            run_id="", task=name, target="cpu", status="failed", reason=reason or "no Model in it"
        )
    over, over_eager = ratio("compile", best, low), ratio("eager", eager or best)
    claimed = Best(
        label="two-pass", candidate_id="c", labels=(kind, "general"), median_us=100, limit_share=0.6,
        confirmed=True, speedup=over, speedup_eager=over_eager, ratios=(over, over_eager),
    )  # fmt: skip
    fields: dict[str, Any] = {
        "run_id": f"r-{name}", "task": name, "target": "cpu", "status": "win" if over.low > 1 else "no-win",
        "best": claimed, "hardware": "Example CPU", "evaluations": 9, "stages": {"ok": 7, "incorrect": 2},
        "threads": 2, "reason": reason, "seconds": 10.0, "baselines": {"compile": 100 * best},
    }  # fmt: skip
    return RunSummary(**(fields | changes))


SUITE = [summary("a", 2.0, eager=4.0), summary("b", 1.02, low=0.99), summary("c", 0.7), summary("d|e", None)]
