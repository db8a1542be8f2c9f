"""TRL: a reward function for `GRPOTrainer` and its kin, and an environment whose tool a model calls several times in a rollout.

In: a `Scorer`. Out: what TRL takes as `reward_funcs` and as `environment_factory`. TRL itself is not imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import UsageError
from .completions import Completion, read_completion
from .scoring import Environment, Scorer

TRIES = 4  # of one rollout


def make_reward(scorer: Scorer, task: str = "") -> Callable[..., list[float]]:
    """Make a reward function. `task`: where the data set has no column "task"."""

    def warpsmith_reward(completions: Sequence[Completion], task: Any = task, **columns: Any) -> list[float]:
        """Reward completions; `task` is the data set's column: a name for each of them."""
        tasks = [task] * len(completions) if isinstance(task, str) else list(task)
        if not all(tasks):
            raise UsageError('the data set needs a column "task" with the name of a task in each row')
        return [r.reward for r in scorer.score_many(tasks, [read_completion(c) for c in completions])]

    return warpsmith_reward


class KernelTool:
    """An environment of TRL: `reset` tells the task, `submit` is the tool, `get_reward` the last submission's reward. Not the best one's: the best
    of several noisy measurements is better than any kernel.
    """

    def __init__(self, scorer: Scorer, task: str = "", form: str = "solution", tries: int = TRIES) -> None:
        """`form`: "solution" or "unit": what is asked for; `tries`: submissions of one rollout that are judged."""
        self._scorer, self._task, self._form, self._tries = scorer, task, form, tries
        self._environment: Environment | None = None

    def reset(self, task: str = "", **columns: Any) -> str:
        """Begin a rollout on the task that the row of the data set names; return what the model is told."""
        name = task or self._task
        if not name:
            raise UsageError('the data set needs a column "task" with the name of a task in each row')
        self._environment = Environment(name, scorer=self._scorer)
        return self._environment.prompt(self._form)

    def submit(self, source: str) -> str:
        """
        Build, check and time a kernel.

        Args:
            source: The whole source of the kernel.

        Returns:
            What came of it, and how fast it is.
        """
        assert self._environment is not None, "reset comes first"
        if len(self._environment.attempts) >= self._tries:
            return "no try is left"
        reward = self._environment.score(source)
        tries_left = self._tries - len(self._environment.attempts)
        return f"{reward.feedback}\nreward {reward.reward:.2f}, {tries_left} tries left"

    def get_reward(self) -> float:
        """Return the last submission's reward; of none that of an empty answer."""
        assert self._environment is not None, "reset comes first"
        if not self._environment.attempts:
            self._environment.score("")
        return self._environment.attempts[-1].reward


def make_environment_factory(
    scorer: Scorer, task: str = "", form: str = "solution", tries: int = TRIES
) -> Callable[[], KernelTool]:
    """Make what `GRPOTrainer(environment_factory=…)` takes. See `KernelTool`."""
    return lambda: KernelTool(scorer, task, form, tries)


__all__ = ["KernelTool", "make_environment_factory", "make_reward"]
