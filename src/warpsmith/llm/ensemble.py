"""Several models for one role: the next question goes to the one whose answers have been worth their cost.

Thompson sampling on the gain of each model, divided by its mean cost: a bandit that keeps trying what is uncertain and
cheap (Xia et al. 2015, "Thompson Sampling for Budgeted Multi-Armed Bandits", IJCAI). In: what an answer gained once it
was judged, and what it cost. Out: which model to ask. The draw for a question depends on its text, the seed and the
rewards so far, not on the order in which threads ask.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..errors import ModelError
from ..records import Exchange, Role, content_hash
from .chat import Chat

CHEAPEST = 0.01  # the least relative cost: a free model is no more than a hundred times preferred


@dataclass
class Arm:
    """Sums over the rewards of one model."""

    rewards: int = 0
    gain: float = 0.0
    tokens: int = 0
    usd: float | None = 0.0  # None: once the price of an answer was not known


class Bandit:
    def __init__(self, models: Iterable[str]) -> None:
        self.arms = {model: Arm() for model in models}

    def choose(self, rng: random.Random) -> str:
        """A model that was never rewarded, while there is one; else the best draw of gain by cost."""
        untried = [model for model, arm in self.arms.items() if not arm.rewards]
        if untried:
            return rng.choice(untried)
        costs = self._mean_costs()
        dearest = max(costs.values())
        draws = {}
        for model, arm in self.arms.items():
            gain = rng.betavariate(1.0 + arm.gain, 1.0 + arm.rewards - arm.gain)
            draws[model] = gain / max(costs[model] / dearest if dearest > 0 else 1.0, CHEAPEST)
        return max(draws, key=draws.__getitem__)

    def reward(self, model: str, gain: float, tokens: int, usd: float | None) -> None:
        """`gain`: 0 for an answer that brought nothing, 1 at the most. `usd`: None where the price is not known."""
        arm = self.arms.get(model)
        if arm is not None:
            arm.rewards += 1
            arm.gain += min(1.0, max(0.0, gain))  # in this order no NaN passes
            arm.tokens += max(tokens, 0)
            arm.usd = None if arm.usd is None or usd is None else arm.usd + max(0.0, usd)

    def _mean_costs(self) -> dict[str, float]:
        """In dollars where every price is known, else in tokens, so that all are in one unit."""
        all_priced = all(arm.usd is not None for arm in self.arms.values())
        return {m: ((a.usd or 0.0) if all_priced else a.tokens) / a.rewards for m, a in self.arms.items()}


class Ensemble:
    """A Chat over several. Who judges answers tells `reward` what they gained, also when that was nothing."""

    def __init__(self, chats: Mapping[str, Chat], seed: int) -> None:
        self._chats, self._seed = dict(chats), seed
        self._bandit, self._lock = Bandit(self._chats), threading.Lock()

    def ask(self, role: Role, system: str, prompt: str, turn: int = 0) -> Exchange:
        """Ask as `Chat` does. A model that is not to be had leaves the ensemble; the last one's ModelError is the ensemble's."""
        rng = random.Random(content_hash([self._seed, role, system, prompt, turn]))
        while True:
            with self._lock:
                model = self._bandit.choose(rng)
            try:
                return self._chats[model].ask(role, system, prompt, turn)
            except ModelError:
                if not self._drop(model):
                    raise

    def reward(self, exchanges: Iterable[Exchange], gain: float) -> None:
        """Credit each model with what the answers that led to one judged attempt gained together, at its cost."""
        by_model: dict[str, list[Exchange]] = {}
        for exchange in exchanges:
            by_model.setdefault(exchange.model, []).append(exchange)
        with self._lock:
            for model, exchanges_of_model in by_model.items():
                tokens = sum(e.usage.input_tokens + e.usage.output_tokens for e in exchanges_of_model)
                prices = [e.usd for e in exchanges_of_model if e.usd is not None]
                self._bandit.reward(
                    model, gain, tokens, sum(prices) if len(prices) == len(exchanges_of_model) else None
                )

    def _drop(self, model: str) -> bool:
        """Drop a model; return whether others are left to ask."""
        with self._lock:
            if list(self._bandit.arms) == [model]:
                return False
            self._bandit.arms.pop(model, None)
            return True
