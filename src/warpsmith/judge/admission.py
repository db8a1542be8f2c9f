"""Whether a task can tell right from wrong: every mutant must fail on it before it counts.

In: a task and its evidence. Out: an `Admission`. On each input family the reference worker makes the mutants
(zeros, a constant, a stale replay, an input handed back, one op dropped, low-precision twins) and judges them
with the rules that candidates are judged by. A mutant that no family catches is admitted, and the task is
quarantined with the reason. A dropped op that changes no bit on any family is an equivalent mutant (an added
zero, a ReLU after a ReLU): it is noted, and does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..records import Admission, Task, Variant
from .evidence import CALL_SECONDS, Case, Evidence

DROPPED_OPS = 8  # dropped one at a time, nearest the output first
ADMITTED = "admitted"
EQUIVALENT = "equivalent"


def admit(task: Task, evidence: Evidence, families: Sequence[str], seed: int) -> Admission:
    """Try families in order until every mutant has been caught on one. Uses the smallest variant."""
    variant = smallest(task)
    caught: dict[str, str] = {}
    touched: set[str] = set()  # mutants that differed from the reference somewhere
    used = 0
    for family in families:
        answer = _mutate(evidence, variant, family, seed, [m for m, rule in caught.items() if rule])
        if not answer["valid"]:
            continue
        used += 1
        for mutant, rule in answer["caught"].items():
            caught[mutant] = f"{rule} on {family}" if rule else ""
        touched |= set(answer["caught"]) - set(answer["same"])
        if all(caught.values()):
            break
    if not used:
        return Admission(
            admitted=False, mutants={}, reasons=("the reference gives NaN or inf on every input family",)
        )
    mutants = {name: rule or (_unseen(name, touched)) for name, rule in caught.items()}
    reasons = tuple(_reason(name) for name, rule in mutants.items() if rule == ADMITTED)
    return Admission(admitted=not reasons, mutants=mutants, reasons=reasons)


def smallest(task: Task) -> Variant:
    """The variant with the fewest elements over all its values."""
    return min(task.variants, key=lambda v: sum(prod(s.shape) for s in v.graph.specs.values()))


def _mutate(evidence: Evidence, variant: Variant, family: str, seed: int, known: list[str]) -> dict:  # type: ignore[type-arg]
    cases = [Case(variant.name, family, seed + i) for i in (0, 1)]
    return evidence.workers.call(
        "mutate", CALL_SECONDS, variant=variant.name, values=str(evidence.values(cases[0])),
        others=str(evidence.values(cases[1])), seed=seed, dropped=DROPPED_OPS, family=family,
        known=known,
    )  # fmt: skip


def _unseen(mutant: str, touched: set[str]) -> str:
    return EQUIVALENT if mutant.startswith("dropped") and mutant not in touched else ADMITTED


def _reason(mutant: str) -> str:
    return f"a wrong answer passes: {mutant}"
