"""Policies: how many candidates of a round each operator proposes, given what its earlier ones gained and cost.

In: the operators that could have something to offer, the number of candidates, and after each judged candidate what it gained (the
logarithm of its speedup over the best before, by the intervals' low ends) and cost (in evaluations). Out: a split. A policy is one
short class; all of them repeat exactly for the same random numbers and rewards, so that a run that is resumed or replayed takes the
same path.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

# What share of an operator's candidates may gain something, before anything is known of the task. Units that were each faster
# alone seldom lose by being joined; a crossover that has none to offer costs nothing.
PRIOR: Mapping[str, float] = MappingProxyType({
    "rewrite": 0.3, "tune": 0.3, "crossover": 0.4, "transplant": 0.1, "edit": 0.2, "restart": 0.2, "simplify": 0.05,
})  # fmt: skip
UNKNOWN = 0.2  # the same for an operator that is not listed
WEIGHT = 4.0  # candidates that the prior counts as
FORGET = 0.85  # of what is known, from round to round: what gained early need not gain late
FULL = math.log(1.05)  # a gain that counts as 1 - 1/e of a success


class Policy(Protocol):
    def split(self, applicable: Sequence[str], n: int, rng: random.Random) -> dict[str, int]:
        """`n` candidates over the operators, in their order; those that get none are left out."""
        ...

    def reward(self, operator: str, gain: float, cost: float) -> None:
        """`gain`: 0 for a candidate that is wrong or no faster; `cost`: 1 for a usual evaluation."""
        ...


class BanditPolicy:
    """Thompson sampling on gain per cost: each place of the round goes to the operator with the best draw.

    The share of an operator's candidates that gain is Beta distributed (W. R. Thompson, Biometrika 25, 1933); a small gain counts as
    a part of a success, and evidence fades from round to round (discounting: Raj and Kalyani, https://arxiv.org/abs/1707.09727).
    """

    def __init__(
        self, prior: Mapping[str, float] = PRIOR, weight: float = WEIGHT, forget: float = FORGET
    ) -> None:
        self._prior, self._weight, self._forget = prior, weight, forget
        self._gained: dict[str, float] = {}
        self._lost: dict[str, float] = {}
        self._cost: dict[str, float] = {}

    def split(self, applicable: Sequence[str], n: int, rng: random.Random) -> dict[str, int]:
        quotas = dict.fromkeys(applicable, 0)
        for _ in range(n if applicable else 0):
            draws = {name: self._draw(name, rng) for name in applicable}
            quotas[max(applicable, key=lambda name: draws[name])] += 1
        for memory in (self._gained, self._lost, self._cost):
            memory.update({name: value * self._forget for name, value in memory.items()})
        return {name: count for name, count in quotas.items() if count}

    def reward(self, operator: str, gain: float, cost: float) -> None:
        success = 1.0 - math.exp(-max(0.0, gain) / FULL)
        self._gained[operator] = self._gained.get(operator, 0.0) + success
        self._lost[operator] = self._lost.get(operator, 0.0) + 1.0 - success
        self._cost[operator] = self._cost.get(operator, 0.0) + cost

    def _draw(self, name: str, rng: random.Random) -> float:
        """Gain per evaluation, as it may be."""
        share, gained, lost = (
            self._prior.get(name, UNKNOWN),
            self._gained.get(name, 0.0),
            self._lost.get(name, 0.0),
        )
        draw = rng.betavariate(self._weight * share + gained, self._weight * (1.0 - share) + lost)
        return draw * (self._weight + gained + lost) / (self._weight + self._cost.get(name, 0.0))


class EvenPolicy:
    """A policy that gives each operator as many, in turn."""

    def __init__(self) -> None:
        self._turn = 0

    def split(self, applicable: Sequence[str], n: int, rng: random.Random) -> dict[str, int]:
        quotas = dict.fromkeys(applicable, 0)
        for _ in range(n if applicable else 0):
            quotas[applicable[self._turn % len(applicable)]] += 1
            self._turn += 1
        return {name: count for name, count in quotas.items() if count}

    def reward(self, operator: str, gain: float, cost: float) -> None:
        """Nothing is learnt."""


class FixedPolicy:
    """Fixed shares, as a built-in rule: half rewrites and tunes, a few of the others."""

    SHARES: Mapping[str, int] = MappingProxyType({
        "rewrite": 4, "tune": 4, "crossover": 2, "edit": 1, "transplant": 1, "restart": 1,
    })  # fmt: skip

    def split(self, applicable: Sequence[str], n: int, rng: random.Random) -> dict[str, int]:
        shares = {name: self.SHARES[name] for name in applicable if name in self.SHARES}
        total, quotas = sum(shares.values()), dict[str, int]()
        for name, share in shares.items():
            quotas[name] = min(n - sum(quotas.values()), math.ceil(n * share / total))
        return {name: count for name, count in quotas.items() if count}

    def reward(self, operator: str, gain: float, cost: float) -> None:
        """Nothing is learnt."""


POLICIES: Mapping[str, type[BanditPolicy | EvenPolicy | FixedPolicy]] = MappingProxyType({
    "bandit": BanditPolicy, "even": EvenPolicy, "fixed": FixedPolicy,
})  # fmt: skip
