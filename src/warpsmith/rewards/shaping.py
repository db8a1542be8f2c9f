"""From a judge's word to a reward: the one place where that is decided, for units, schedules and solutions alike.

In: a `Result` or a `SolutionVerdict`, the length of what was written, weights. Out: a `Reward`. Penalties come for what does not build, is
wrong, has a forfeited label, or is long; speed is paid by the low end of its interval, so noise never pays. A cheat gets minus the weight
`cheat`, whatever else is known of it; the judge's own failure counts as wrong, so that nobody gains by ending the judge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..records import Ratio, Result
from ..solutions.verdict import SolutionVerdict, find_failed_rule
from ..tasks.secret_variant import SECRET_SHAPE
from .reward import FORFEITED, Reward, RewardMode, RewardWeights

SLOWEST, FASTEST = (
    -0.4,
    1.0,
)  # decimal logarithms of the speedup between which it is paid: 0.4 times to 10 times as fast
CHEATING = ("refused", "invalid")  # statuses
NOT_BUILT = ("build-failed", "refused")
MAX_LINES, MAX_LINE_CHARACTERS = 12, 240
DEFAULT = RewardWeights()


def reward_result(
    result: Result, length: int, weights: RewardWeights = DEFAULT, mode: RewardMode = "screening",
    evidence: Sequence[str] = (), doubts: Sequence[str] = (),
) -> Reward:  # fmt: skip
    """Reward a unit or a schedule. `length`: characters that were written; `evidence`: as authors are shown it; `doubts`: why the task is
    quarantined.
    """
    labels = (result.verdict.labels if result.verdict is not None else ()) + (
        ("quarantined",) if doubts else ()
    )
    timing, ratio = result.timing, result.promise
    cheating = result.status in CHEATING
    parts = _add_up(
        built=result.status not in NOT_BUILT, right=result.passed, cheating=cheating, labels=labels, ratio=ratio,
        limit_share=timing.limit_share if timing is not None else 0.0, length=length, weights=weights,
    )  # fmt: skip
    return Reward(
        reward=sum(parts.values()), parts=parts, mode="screening" if result.status == "screened" else mode, status=result.status,
        right=result.passed, cheating=cheating, ratio=ratio, us=timing.median_us if timing is not None else None,
        limit_share=timing.limit_share if timing is not None else 0.0, labels=labels, reason=result.reason,
        evidence=(*evidence, *doubts), feedback=_tell_of_result(result, evidence), candidate=result.candidate_id,
    )  # fmt: skip


def reward_solution(
    verdict: SolutionVerdict, length: int, weights: RewardWeights = DEFAULT, mode: RewardMode = "screening", candidate: str = ""
) -> Reward:  # fmt: skip
    """Reward a `ModelNew`. `length`: characters of its text; `candidate`: hash of the text."""
    timing, ratio = verdict.timing, verdict.speedup.get("best")
    right, cheating = verdict.verdict == "correct", verdict.verdict == "invalid"
    labels = (verdict.label, *verdict.labels)
    limit_share = timing.limit_share if timing is not None and right else 0.0
    parts = _add_up(
        built=bool(verdict.checks) or right, right=right, cheating=cheating, labels=labels, ratio=ratio,
        limit_share=limit_share, length=length, weights=weights,
    )  # fmt: skip
    failed = [f"{c.rule} at {c.variant}/{c.family}: {c.detail}" for c in verdict.checks if not c.ok]
    return Reward(
        reward=sum(parts.values()), parts=parts, mode=mode, status=verdict.verdict, right=right, cheating=cheating, ratio=ratio,
        us=timing.median_us if timing is not None and right else None, limit_share=limit_share, labels=labels,
        reason=verdict.reasons[0] if verdict.reasons else "", evidence=tuple(dict.fromkeys([*failed, *verdict.reasons]))[:MAX_LINES],
        feedback=_tell_of_solution(verdict), hardware=verdict.hardware, candidate=candidate,
    )  # fmt: skip


def reward_malformed(problem: str, length: int, weights: RewardWeights = DEFAULT) -> Reward:
    """Reward what cannot be judged at all: text without a kernel, a schedule that does not exist. `problem`: one line."""
    parts = _add_up(
        built=False,
        right=False,
        cheating=False,
        labels=(),
        ratio=None,
        limit_share=0.0,
        length=length,
        weights=weights,
    )
    return Reward(
        reward=sum(parts.values()), parts=parts, status="malformed", reason=problem, feedback=f"malformed: {problem}"[:MAX_LINE_CHARACTERS]
    )  # fmt: skip


def _add_up(
    *, built: bool, right: bool, cheating: bool, labels: Sequence[str], ratio: Ratio | None, limit_share: float, length: int,
    weights: RewardWeights,
) -> dict[str, float]:  # fmt: skip
    """The parts. None above 0 is there unless it is right, its labels are accepted, and the low end of its speedup is above 1."""
    if cheating:
        return {"cheat": -weights.cheat}
    shortness = -weights.length * min(1.0, length / weights.long_characters)
    if not right:
        return {"builds": 0.0 if built else -weights.builds, "right": -weights.right, "length": shortness}
    if set(labels) & (set(FORFEITED) - set(weights.accepted)):
        return {"builds": 0.0, "right": 0.0, "label": -weights.label, "length": shortness}
    low = ratio.low if ratio is not None else 0.0
    logarithm = math.log10(low) if low > 0 else SLOWEST
    return {
        "builds": 0.0, "right": 0.0, "speed": weights.speed * min(FASTEST, max(SLOWEST, logarithm)),
        "limit": weights.limit * min(1.0, limit_share) if low > 1.0 else 0.0, "length": shortness,
    }  # fmt: skip


def _tell_of_result(result: Result, evidence: Sequence[str]) -> str:
    """Compilers' words and profiles are the policy's to read; details of a failed check hold values and shapes, which are not."""
    lines = [
        _tell_time(
            result.status, result.promise, result.timing.median_us if result.timing is not None else None
        )
    ]
    if result.passed or result.status in ("build-failed", "refused"):
        lines += [line for line in evidence if SECRET_SHAPE not in line]
    elif result.verdict is not None and result.verdict.failed is not None:
        lines.append(f"it fails the rule {find_failed_rule(result)!r}")
    return _shorten(lines)


def _tell_of_solution(verdict: SolutionVerdict) -> str:
    """Errors of a module that was not even constructed are told, later ones by their rule alone: they may quote a call's values."""
    timing = verdict.timing if verdict.verdict == "correct" else None
    lines = [
        _tell_time(
            verdict.verdict, verdict.speedup.get("best"), timing.median_us if timing is not None else None
        )
    ]
    if verdict.rule:
        lines.append(f"it fails the rule {verdict.rule!r}")
    if verdict.verdict == "correct":
        lines.append(f"labels: {', '.join((verdict.label, *verdict.labels))}")
    elif not verdict.checks:
        lines += verdict.reasons[:1]
    return _shorten(lines)


def _tell_time(status: str, ratio: Ratio | None, us: float | None) -> str:
    if ratio is None or us is None:
        return status
    return f"{status}: {us:.1f} us, at least {max(0.0, ratio.low):.2f} times as fast as {ratio.baseline}"


def _shorten(lines: Sequence[str]) -> str:
    return "\n".join(" ".join(line.split())[:MAX_LINE_CHARACTERS] for line in lines[:MAX_LINES])


__all__ = ["reward_malformed", "reward_result", "reward_solution"]
