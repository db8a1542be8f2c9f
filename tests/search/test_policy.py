"""Who gets a round's places: what gained gets more, what is dear gets less, and the same numbers give the same split."""

import math
import random
from collections import Counter

import pytest
from scripted_search import searched

from warpsmith.records import Budget
from warpsmith.search.ledger import Ledger
from warpsmith.search.policy import POLICIES, BanditPolicy, EvenPolicy, FixedPolicy, Policy
from warpsmith.testing import scripted_result

NAMES = ("rewrite", "edit", "tune", "crossover")
GAIN = math.log(1.2)


def shares(policy: Policy, rounds: int = 200, names: tuple[str, ...] = NAMES) -> Counter[str]:
    rng, total = random.Random(5), Counter[str]()
    for _ in range(rounds):
        split = policy.split(names, 12, rng)
        assert sum(split.values()) == 12
        assert list(split) == [n for n in names if n in split]
        total.update(split)
    return total


def taught(
    policy: Policy, gains: dict[str, float], costs: dict[str, float], rounds: int = 30
) -> Counter[str]:
    """What the last rounds gave, when each operator gains and costs what it does every time."""
    rng, late = random.Random(5), Counter[str]()
    for number in range(rounds):
        split = policy.split(NAMES, 12, rng)
        late.update(split if number >= rounds // 2 else {})
        for name, count in split.items():
            for _ in range(count):
                policy.reward(name, gains.get(name, 0.0), costs.get(name, 1.0))
    return late


def test_the_bandit_gives_most_to_what_gains_and_even_and_fixed_do_not() -> None:
    """The switch: the same rewards, other splits."""
    late = {kind: taught(POLICIES[kind](), {"edit": GAIN}, {}) for kind in POLICIES}
    assert late["bandit"]["edit"] > 0.7 * late["bandit"].total()
    assert late["even"]["edit"] == late["even"].total() / 4
    assert late["fixed"]["edit"] < late["fixed"]["tune"]


def test_at_equal_gain_the_bandit_prefers_the_cheaper() -> None:
    gains = {"edit": GAIN, "tune": GAIN}
    late = taught(BanditPolicy(), gains, {"edit": 10.0, "tune": 1.0})
    assert late["tune"] > 3 * late["edit"]


def test_the_bandit_forgets_so_that_what_gained_early_loses_its_share() -> None:
    def after_a_change(forget: float) -> int:
        policy = BanditPolicy(forget=forget)
        taught(policy, {"edit": GAIN}, {})
        return taught(policy, {"tune": GAIN}, {}, rounds=10)["tune"]

    assert after_a_change(0.85) > after_a_change(1.0)


def test_nothing_is_starved_before_anything_is_known() -> None:
    assert min(shares(BanditPolicy()).values()) > 0.1 * 200 * 12


@pytest.mark.parametrize("kind", POLICIES)
def test_a_policy_repeats_itself_for_the_same_numbers(kind: str) -> None:
    def once() -> Counter[str]:
        return taught(POLICIES[kind](), {"edit": 0.01, "tune": GAIN}, {"edit": 2.0})

    assert once() == once()


@pytest.mark.parametrize("policy", [BanditPolicy(), EvenPolicy(), FixedPolicy()])
def test_nobody_to_share_among(policy: Policy) -> None:
    assert policy.split((), 12, random.Random(0)) == {}


@pytest.mark.parametrize("other", ["even", "fixed"])
def test_the_setting_changes_what_a_search_judges(other: str) -> None:
    def judged(policy: str) -> list[str]:
        found = searched(lambda c: 1.0 + 0.1 * sum(u.values["UNROLL"] for u in c.units), policy=policy)
        return [a.candidate.content_key for a in found.attempts]

    assert judged("bandit") == judged("bandit")
    assert judged("bandit") != judged(other)


class Noted(EvenPolicy):
    def __init__(self) -> None:
        super().__init__()
        self.rewards: list[tuple[str, float, float]] = []

    def reward(self, operator: str, gain: float, cost: float) -> None:
        self.rewards.append((operator, gain, cost))


def test_a_gain_is_of_low_ends_over_the_best_before_and_a_cost_of_the_judges_seconds() -> None:
    some = searched(lambda c: 1.5, evaluations=4).attempts
    policy = Noted()
    ledger = Ledger(policy, Budget(evaluations=10, seconds=None))
    for i, (speed, seconds) in enumerate([(1.5, 2.0), (1.51, 2.0), (0.5, 8.0), (2.0, 4.0)]):
        ledger.count_proposal("edit", some[i].candidate.content_key)
        result = scripted_result(some[i].candidate, speed).model_copy(update={"seconds": {"time": seconds}})
        ledger.note(type(some[i])(some[i].candidate, result), judged=i < 3)
    gains = [gain for _, gain, _ in policy.rewards]
    assert gains == pytest.approx([math.log(0.98 * 1.5), math.log(1.51 / 1.5), 0.0, math.log(2.0 / 1.51)])
    assert [cost for _, _, cost in policy.rewards] == pytest.approx([1.0, 1.0, 2.0, 0.0])
    (use,) = ledger.summary()
    assert (use.operator, use.bred, use.judged, use.ok, sum(use.rounds)) == ("edit", 4, 3, 4, 3)
    assert use.gain == pytest.approx(math.log(0.98 * 2.0), abs=1e-5)


def test_the_uses_of_a_search_account_for_every_evaluation() -> None:
    found = searched(lambda c: 1.0 + 0.1 * sum(u.values["UNROLL"] for u in c.units))
    assert sum(use.judged for use in found.uses) == found.meter.evaluations == len(found.attempts)
    assert {use.operator for use in found.uses} >= {"seed", "tune"}
    assert all(sum(use.rounds) == use.judged <= use.bred for use in found.uses)
