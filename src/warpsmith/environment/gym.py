"""Schedules as a Gymnasium environment: first a technique is chosen, then the values of its tunables, and the judge gives the reward.

In: an `Environment`. Out: a `gymnasium.Env` with a MultiDiscrete action: the number of an offer, then for each tunable the number of a value. Both
are needed one after the other: a try takes two steps, of which the mask (`action_masks()`, also `info["action_mask"]`) allows in the first one
the offers, in the second one the values of the chosen offer. What the mask forbids is judged as malformed. Needs the extra `learning`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..authoring.actions import Schedule, ScheduleOffer
from ..errors import UsageError
from ..rewards.reward import Reward
from .scoring import Environment

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as missing:
    raise UsageError("gymnasium is missing: pip install 'warpsmith[learning]'") from missing

TRIES = 8  # schedules that are judged in one episode
FEATURES = 4  # of a task
RATIO_EXPONENT = 2.0  # decimal: speedups from 0.01 to 100 are told apart

Observed = dict[str, Any]


class ScheduleEnv(gymnasium.Env[Observed, np.ndarray]):
    """`observation`: "task" (logarithms of FLOPs, bytes and limit, and the number of nodes), "chosen" (the offer, from 1; 0: none yet), "tried" (of each
    offer the reward of its best try, and whether there was one), "left" (tries). `info["reward"]` is the whole `Reward` of a judged try.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, environment: Environment, tries: int = TRIES) -> None:
        """`tries`: schedules that are judged in one episode. Raises UsageError for a task that the expert has no schedule for."""
        self.environment, self.tries = environment, tries
        observation = environment.scorer.observe(environment.task)
        self.offers: tuple[ScheduleOffer, ...] = observation.schedules
        if not self.offers:
            raise UsageError(f"the expert has no schedule for {environment.task}")
        slots = max(len(offer.domains) for offer in self.offers)
        self._sizes = [len(self.offers)] + [
            max((len(d) for o in self.offers for d in list(o.domains.values())[slot : slot + 1]), default=1)
            for slot in range(slots)
        ]
        self._features = np.array(
            [math.log10(1 + x) for x in (observation.flops, observation.least_bytes, observation.limit_us or 0.0, len(self.offers[0].nodes))],
            dtype=np.float32,
        )  # fmt: skip
        self.action_space = spaces.MultiDiscrete(self._sizes)
        self.observation_space = spaces.Dict({
            "task": spaces.Box(0.0, 30.0, (FEATURES,), np.float32),
            "chosen": spaces.Discrete(len(self.offers) + 1),
            "tried": spaces.Box(-RATIO_EXPONENT, RATIO_EXPONENT, (len(self.offers), 2), np.float32),
            "left": spaces.Box(0, tries, (1,), np.int64),
        })  # fmt: skip
        self._begin()

    def _begin(self) -> None:
        self._chosen, self._left = 0, self.tries
        self._tried = np.zeros((len(self.offers), 2), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observed, dict[str, Any]]:
        super().reset(seed=seed)
        self._begin()
        return self._observe(), self._inform()

    def step(self, action: np.ndarray) -> tuple[Observed, float, bool, bool, dict[str, Any]]:
        """Choose an offer, for no reward; or values, for the reward of the schedule. An episode ends after its tries."""
        if not self._chosen:
            self._chosen = int(action[0]) + 1
            return self._observe(), 0.0, False, False, self._inform()
        reward = self.environment.score(self.read_schedule(action))
        number = self._chosen - 1
        best = max(reward.reward, float(self._tried[number, 0])) if self._tried[number, 1] else reward.reward
        self._tried[number] = np.clip(best, -RATIO_EXPONENT, RATIO_EXPONENT), 1.0
        self._chosen, self._left = 0, self._left - 1
        return self._observe(), reward.reward, self._left == 0, False, self._inform(reward)

    def read_schedule(self, action: np.ndarray) -> Schedule:
        """The schedule that the chosen offer and an action's values mean; of what the mask forbids one that does not exist."""
        offer = self.offers[self._chosen - 1]
        numbers = [int(number) for number in action[1:]]
        values = {
            name: domain[number] if number < len(domain) else -1 - number
            for number, (name, domain) in zip(numbers, offer.domains.items(), strict=False)
        }
        return Schedule(technique=offer.technique, region=offer.region, values=values)

    def action_masks(self) -> np.ndarray:
        """Return what is allowed now, one entry a choice, those of all dimensions after one another, as sb3-contrib reads it."""
        allowed = [np.zeros(size, dtype=bool) for size in self._sizes]
        for mask in allowed[1:]:
            mask[0] = True
        if not self._chosen:
            allowed[0][:] = True
            return np.concatenate(allowed)
        allowed[0][self._chosen - 1] = True
        for mask, domain in zip(allowed[1:], self.offers[self._chosen - 1].domains.values(), strict=False):
            mask[: len(domain)] = True
        return np.concatenate(allowed)

    def close(self) -> None:
        self.environment.close()

    def _observe(self) -> Observed:
        return {
            "task": self._features.copy(), "chosen": np.int64(self._chosen), "tried": self._tried.copy(),
            "left": np.array([self._left], np.int64),
        }  # fmt: skip

    def _inform(self, reward: Reward | None = None) -> dict[str, Any]:
        return {"action_mask": self.action_masks(), **({"reward": reward} if reward is not None else {})}


__all__ = ["ScheduleEnv"]
