"""The book of operators: what each was given, what came of it, and what the policy is told.

In: what each operator proposals, and the attempts. Out: rewards for the policy, and an
`OperatorUse` for each operator. A gain is verified: the logarithm of the low end of a speedup's interval over the best low end before
(the reference itself, until something is faster). A cost is in evaluations: the judge's recorded seconds over their mean so far, and
dollars as their share of the budget, so that a run that is resumed from its record books the same.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from ..agents.base import Attempt
from ..records import Budget, OperatorUse
from .policy import Policy

SIMPLER = 0.005  # what the policy is told of a simplification that costs no speed: half a percent


@dataclass
class Use:
    rounds: list[int] = field(default_factory=list)
    proposals: int = 0
    judged: int = 0
    ok: int = 0
    gain: float = 0.0
    cost: float = 0.0


class Ledger:
    def __init__(self, policy: Policy, budget: Budget) -> None:
        self._policy, self._budget = policy, budget
        self._uses: defaultdict[str, Use] = defaultdict(Use)
        self._owners: dict[str, str] = {}  # content key → operator
        self._best = 0.0  # low end of the best interval
        self._hoped = 0.0  # the best estimate of a screened candidate
        self._seconds, self._timed = 0.0, 0

    def count_proposal(self, operator: str, content_key: str) -> None:
        """A candidate that this run did not have."""
        self._owners[content_key] = operator
        self._uses[operator].proposals += 1

    def note(self, attempt: Attempt, judged: bool, simpler: bool = False) -> None:
        """One more attempt. `judged`: here, not taken from an earlier run; `simpler`: as fast as the best, with less code."""
        operator = self._owners[attempt.candidate.content_key]
        gain, cost = (
            self._gain(attempt) if not attempt.screened else 0.0,
            self._compute_cost(attempt) if judged else 0.0,
        )
        use, judged = self._uses[operator], judged and not attempt.screened
        number = attempt.candidate.lineage.round
        use.rounds += [0] * (number + 1 - len(use.rounds))
        use.rounds[number] += judged
        use.judged += judged
        use.ok += attempt.speedup > 0 and not attempt.screened
        use.gain += gain
        use.cost += cost
        hoped = self._estimate_gain(attempt) if attempt.screened else 0.0
        self._policy.reward(operator, max(gain, hoped, SIMPLER if simpler else 0.0), cost)

    def summary(self) -> tuple[OperatorUse, ...]:
        """In the order of first use."""
        return tuple(
            OperatorUse(
                operator=name, bred=use.proposals, judged=use.judged, ok=use.ok, gain=round(use.gain, 6),
                cost=round(use.cost, 6), rounds=tuple(use.rounds),
            )
            for name, use in self._uses.items()
        )  # fmt: skip

    def _gain(self, attempt: Attempt) -> float:
        ratio = attempt.result.speedup
        if attempt.speedup <= 0 or ratio is None or ratio.low <= 0:
            return 0.0
        before = self._best or 1.0
        self._best = max(self._best, ratio.low)
        return max(0.0, math.log(ratio.low / before))

    def _estimate_gain(self, attempt: Attempt) -> float:
        """Return what the policy is told of a screened candidate: the logarithm of its estimate over the best one before."""
        before = self._hoped or 1.0
        self._hoped = max(self._hoped, attempt.speedup)
        return max(0.0, math.log(attempt.speedup / before))

    def _compute_cost(self, attempt: Attempt) -> float:
        seconds = sum(attempt.result.seconds.values())
        self._seconds, self._timed = self._seconds + seconds, self._timed + (seconds > 0)
        mean = self._seconds / self._timed if self._timed else 0.0
        usd = attempt.candidate.lineage.cost_usd / self._budget.usd if self._budget.usd else 0.0
        return (seconds / mean if mean > 0 else 1.0) + usd * (self._budget.evaluations or 0)
