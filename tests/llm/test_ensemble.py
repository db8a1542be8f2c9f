"""The bandit learns which model is worth its cost, tries each, and draws the same for the same seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from warpsmith.errors import ModelError
from warpsmith.llm.chat import Chat
from warpsmith.llm.ensemble import Bandit, Ensemble
from warpsmith.llm.scripted_server import Asked, failing
from warpsmith.records import Exchange, Role, Usage

Start = Callable[..., Any]
PULLS = 400


def pulls(arms: dict[str, tuple[float, float | None, int]], seed: int, rounds: int = PULLS) -> Counter[str]:
    """How often each arm was chosen. An arm: how probable a gain is, dollars, tokens."""
    bandit, rng, chosen = Bandit(arms), random.Random(seed), Counter[str]()
    for _ in range(rounds):
        model = bandit.choose(rng)
        chosen[model] += 1
        chance, usd, tokens = arms[model]
        bandit.reward(model, float(rng.random() < chance), tokens, usd)
    return chosen


SEEDS = st.integers(0, 2**32)
few = settings(max_examples=25, deadline=None)


@few
@given(SEEDS, st.sampled_from([0.0, 0.01, None]))
def test_the_better_model_gets_most_questions(seed: int, usd: float | None) -> None:
    chosen = pulls({"bad": (0.2, usd, 100), "good": (0.8, usd, 100)}, seed)
    assert chosen["good"] > 0.7 * PULLS
    assert chosen["bad"] >= 1


@few
@given(SEEDS)
def test_of_equals_the_cheaper_gets_most(seed: int) -> None:
    assert pulls({"dear": (0.5, 0.1, 100), "cheap": (0.5, 0.01, 100)}, seed)["cheap"] > 0.7 * PULLS


@few
@given(SEEDS)
def test_without_prices_tokens_count(seed: int) -> None:
    assert pulls({"long": (0.5, None, 9000), "short": (0.5, 0.1, 300)}, seed)["short"] > 0.7 * PULLS


@few
@given(SEEDS)
def test_a_dear_model_is_worth_it_when_it_gains_enough(seed: int) -> None:
    assert pulls({"dear": (0.9, 0.02, 1), "cheap": (0.05, 0.01, 1)}, seed)["dear"] > 0.6 * PULLS


@given(
    SEEDS,
    st.lists(
        st.tuples(st.floats(0, 1), st.one_of(st.none(), st.floats(0, 1e6)), st.integers(0, 10**9)),
        min_size=2, max_size=6,
    ),
)  # fmt: skip
@settings(max_examples=50, deadline=None)
def test_each_is_tried_whatever_it_costs_and_the_same_seed_draws_the_same(
    seed: int, values: list[tuple[float, float | None, int]]
) -> None:
    arms = {f"m{n}": value for n, value in enumerate(values)}
    chosen = pulls(arms, seed, rounds=len(arms))
    assert set(chosen.values()) == {1}
    assert pulls(arms, seed, rounds=40) == pulls(arms, seed, rounds=40)


@example(float("nan"), 1, float("nan"))
@given(st.floats(), st.integers(-5, 5), st.one_of(st.none(), st.floats()))
def test_odd_rewards_do_no_harm(gain: float, tokens: int, usd: float | None) -> None:
    bandit = Bandit(["a", "b"])
    for model in ("a", "b", "a", "gone"):
        bandit.reward(model, gain, tokens, usd)
    assert bandit.choose(random.Random(0)) in ("a", "b")


class Canned:
    """A model that always says its name."""

    def __init__(self, name: str, dead: bool = False) -> None:
        self.name, self.dead, self.asked = name, dead, 0

    def ask(self, role: Role, system: str, prompt: str, turn: int = 0) -> Exchange:
        self.asked += 1
        if self.dead:
            raise ModelError(f"{self.name} is dead")
        return Exchange(
            key=prompt, role=role, model=self.name, system=system, prompt=prompt, answer=self.name,
            usage=Usage(output_tokens=10), usd=0.01,
        )  # fmt: skip


def answers(chats: dict[str, Chat], prompts: list[str], seed: int = 1, gain: float = 0.0) -> dict[str, str]:
    ensemble = Ensemble(chats, seed)
    got = {}
    for prompt in prompts:
        exchange = ensemble.ask("synthesis", "s", prompt)
        got[prompt] = exchange.answer
        if gain:
            ensemble.reward([exchange], gain if exchange.model == "a" else 0.0)
    return got


def test_the_draw_depends_on_the_question_not_on_the_order() -> None:
    prompts = [f"question {n}" for n in range(40)]
    there = answers({"a": Canned("a"), "b": Canned("b")}, prompts)
    assert there == answers({"a": Canned("a"), "b": Canned("b")}, prompts[::-1])
    assert there != answers({"a": Canned("a"), "b": Canned("b")}, prompts, seed=2)
    assert set(there.values()) == {"a", "b"}


def test_rewards_change_who_is_asked() -> None:
    prompts = [f"question {n}" for n in range(100)]
    got = answers({"a": Canned("a"), "b": Canned("b")}, prompts, gain=0.9)
    assert Counter(got.values())["a"] > 70


def test_a_dead_model_leaves_the_ensemble_and_the_last_one_ends_it() -> None:
    dead, well = Canned("a", dead=True), Canned("b")
    assert set(answers({"a": dead, "b": well}, [f"question {n}" for n in range(20)]).values()) == {"b"}
    assert dead.asked == 1
    ensemble = Ensemble({"a": Canned("a", dead=True), "b": Canned("b", dead=True)}, 0)
    with pytest.raises(ModelError, match="dead"):
        ensemble.ask("synthesis", "s", "p")


def test_an_ensemble_of_real_clients(asking: Start) -> None:
    """Two models of one server; one of them is unknown there."""

    def by_model(asked: Asked) -> Any:
        return asked.model if asked.model == "one" else failing(404)

    it = asking(by_model, model="openai:one, openai:two")
    assert {it.ask(f"question {n}").model for n in range(8)} == {"openai:one"}
    assert [r.model for r in it.server.requests].count("two") == 1
