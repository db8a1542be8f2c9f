"""What a tracker draws: the state of a run, and its summary, as numbers by name."""

from __future__ import annotations

from ..records import RunSummary
from ..records.live import LiveState


def list_live_values(state: LiveState) -> dict[str, float]:
    """Return the numbers of a state. What is not known yet is left out."""
    values = {
        "candidates/judged": float(state.judged),
        "candidates/screened": float(state.screened),
        "models/tokens": float(state.tokens),
        "models/usd": state.usd,
    }
    values |= {f"outcomes/{status}": float(count) for status, count in state.outcomes.items()}
    values |= {f"seconds/{stage}": seconds for stage, seconds in state.seconds_by_stage.items()}
    if state.best is not None:
        best = state.best
        values |= {"best/low": best.low, "best/median": best.median, "best/high": best.high}
        values |= {
            "best/limit_share": state.best_limit_share,
            "best/measured_afresh": float(state.best_confirmed),
        }
    return values


def count_candidates(state: LiveState) -> int:
    """Count the candidates of a state whose outcome is known."""
    return sum(state.outcomes.values())


def list_final_values(summary: RunSummary) -> dict[str, float]:
    """Return the numbers of a summary; the best is the confirmed one."""
    values = {
        "final/judged": float(summary.evaluations),
        "final/screened": float(summary.screened),
        "final/seconds": summary.seconds,
    }
    values |= {f"seconds/{stage}": seconds for stage, seconds in summary.seconds_by_stage.items()}
    if summary.best is not None:
        ratio = summary.best.speedup
        values |= {"final/low": ratio.low, "final/median": ratio.median, "final/high": ratio.high}
        values["final/limit_share"] = summary.best.limit_share
    return values
