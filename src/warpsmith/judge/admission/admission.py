"""Task admission by mutation: every wrong answer must fail on a task before it counts.

In: a task and its evidence. Out: an `Admission`. On each input family the reference worker makes the mutants
(zeros, a constant, a stale replay, an input handed back, one op dropped, low-precision twins) and judges them
with the rules that candidates are judged by. A mutant that no family catches is admitted, and the task is
quarantined with the reason. A dropped op that changes no bit on any family, or only rounds, is an equivalent mutant (an added
zero, a ReLU after a ReLU, a resize of one pixel): it is noted, and does not count. Within a bound of time nothing is tried less hard: what it
does not suffice for is said, and the task is not admitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

from ...errors import TaskError
from ...progress import counted
from ...records import Admission, Task, Variant
from ..correctness.evidence import CALL_SECONDS, Case, Evidence
from .time_bound import TimeBound

DROPPED_OPS = 8  # dropped one at a time, nearest the output first
ADMITTED = "admitted"
EQUIVALENT = "equivalent"
UNDECIDED = "undecided"  # the time was over
GRACE_SECONDS = 5.0  # for an answer that says what there was no time for


def admit(
    task: Task, evidence: Evidence, families: Sequence[str], seed: int, *, bound: TimeBound | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Admission:  # fmt: skip
    """Try families in order until every mutant has been caught on one, or the time is over. Uses the smallest variant.

    Raises TaskError for a reference that is finite on none.
    """
    bound, trials = bound or TimeBound(), Trials(task.name)
    variant = smallest(task)
    for number, family in enumerate(families):
        if not bound.over:
            progress(f"trying wrong answers on {family} inputs, {number + 1} of {len(families)} ({bound})")
        mutate = partial(_mutate, evidence, variant, family, seed, trials.settled, bound)
        answer = bound.attempt(mutate)
        if answer is not None:
            trials.add(family, answer)
        if answer is None or answer.get("untried"):
            return trials.cut_short(families[number:], len(families))
        if trials.used and all(trials.caught.values()):
            break
    return trials.admission()


class Trials:
    """Collects what the families tried so far have caught."""

    def __init__(self, task: str) -> None:
        self.task = task
        self.caught: dict[str, str] = {}  # mutant → rule and family, or ""
        self._not_finite: set[str] = set()  # outputs of the reference that were not on some family
        self._touched: set[str] = set()  # mutants that differed from the reference somewhere
        self.used = 0  # families on which the reference is finite

    @property
    def settled(self) -> list[str]:
        return [mutant for mutant, rule in self.caught.items() if rule]

    def add(self, family: str, answer: dict[str, Any]) -> None:
        if not answer["valid"]:
            self._not_finite |= set(answer["not_finite"])
            return
        self.used += 1
        for mutant, rule in answer["caught"].items():
            self.caught[mutant] = f"{rule} on {family}" if rule else ""
        for mutant in answer.get("untried", ()):
            self.caught.setdefault(mutant, "")
        self._touched |= set(answer["caught"]) - set(answer["same"])

    def admission(self) -> Admission:
        """Raises TaskError where no family can tell right from wrong."""
        if not self.used:
            raise TaskError(
                f"{self.task}: the reference gives NaN or inf in {', '.join(sorted(self._not_finite))} on every input family, so a right "
                "answer cannot be told from a wrong one: return finite values"
            )
        mutants = {
            name: rule or (_classify_uncaught(name, self._touched)) for name, rule in self.caught.items()
        }
        reasons = tuple(_reason(name) for name, rule in mutants.items() if rule == ADMITTED)
        return Admission(admitted=not reasons, mutants=mutants, reasons=reasons)

    def cut_short(self, families: Sequence[str], count: int) -> Admission:
        """No task is admitted before every mutant has been caught. `families`: those not tried, or not to the end, of `count`."""
        mutants = {name: rule or UNDECIDED for name, rule in self.caught.items()}
        undecided = [name for name, rule in mutants.items() if rule == UNDECIDED]
        subject = (
            f"{len(undecided)} of {counted(len(mutants), 'wrong answer')}" if mutants else "any wrong answer"
        )
        names = ", ".join(families)
        text = f"{subject} on {len(families)} of {count} input families ({names})"
        return Admission(admitted=False, mutants=mutants, unchecked=(text,))


def smallest(task: Task) -> Variant:
    """The variant with the fewest elements over all its values."""
    return min(task.variants, key=lambda v: sum(prod(s.shape) for s in v.graph.specs.values()))


def _mutate(
    evidence: Evidence, variant: Variant, family: str, seed: int, known: list[str], bound: TimeBound
) -> dict[str, Any]:
    cases = [Case(variant.name, family, seed + i) for i in (0, 1)]
    values, other_values = (str(evidence.values(case)) for case in cases)
    seconds = bound.remaining
    timeout = CALL_SECONDS if seconds is None else seconds + GRACE_SECONDS
    return evidence.workers.call(
        "mutate", timeout, variant=variant.name, values=values, others=other_values, seed=seed, dropped=DROPPED_OPS,
        family=family, known=known, seconds=seconds,
    )  # fmt: skip


def _classify_uncaught(mutant: str, touched: set[str]) -> str:
    return EQUIVALENT if mutant.startswith("dropped") and mutant not in touched else ADMITTED


def _reason(mutant: str) -> str:
    return f"a wrong answer passes: {mutant}"
