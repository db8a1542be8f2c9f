"""One episode is one task: its prompt, then some tries, each of which is judged.

In: a `Scorer` of `warpsmith.environment`, which several sessions share, and the names of the tasks that episodes are about. Out: OpenEnv's
`Environment`.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from typing import Any, Literal

from openenv.core.env_server import Environment as OpenEnvironment
from openenv.core.env_server.types import EnvironmentMetadata

import warpsmith
from warpsmith.environment import Environment, Scorer
from warpsmith.errors import UsageError

from .messages import KernelAction, KernelObservation, KernelState

Form = Literal["solution", "unit"]
TRIES = 4  # of one episode


class KernelEnvironment(OpenEnvironment[KernelAction, KernelObservation, KernelState]):
    SUPPORTS_CONCURRENT_SESSIONS = True  # a scorer may be asked by several threads

    def __init__(
        self, scorer: Scorer, tasks: Sequence[str], form: Form = "solution", tries: int = TRIES
    ) -> None:
        """`form`: what the prompt asks for. Raises UsageError for no task."""
        super().__init__()
        if not tasks:
            raise UsageError(
                "WARPSMITH_TASKS: name the tasks that episodes are about, with commas between them"
            )
        self._scorer, self._tasks, self._form, self._tries = scorer, tuple(tasks), form, tries
        self._environment: Environment | None = None
        self._state = KernelState()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, task: str = "", **kwargs: Any
    ) -> KernelObservation:
        """Begin an episode. `task`: one of the tasks; else `seed` chooses among them. Raises UsageError for another task."""
        name = task or random.Random(seed).choice(self._tasks)
        if name not in self._tasks:
            raise UsageError(f"{name[:80]} is none of this environment's tasks: {', '.join(self._tasks)}")
        self._environment = Environment(name, scorer=self._scorer)
        self._state = KernelState(episode_id=episode_id or str(uuid.uuid4()), step_count=0, task=name)
        return KernelObservation(
            task=name, prompt=self._environment.prompt(self._form), tries_left=self._tries
        )

    def step(self, action: KernelAction, timeout_s: float | None = None, **kwargs: Any) -> KernelObservation:
        """Judge an answer. A step after the last try is not judged: its reward is None. Raises as `Scorer.score` does."""
        if self._environment is None:
            raise UsageError("reset comes first")
        if self._state.step_count >= self._tries:
            return KernelObservation(task=self._state.task, feedback="no try is left", done=True)
        reward = self._environment.score(action.source)
        self._state.step_count += 1
        self._state.rewards = [*self._state.rewards, reward.model_dump(mode="json")]
        tries_left = self._tries - self._state.step_count
        return KernelObservation(
            task=self._state.task, feedback=reward.feedback, status=reward.status, right=reward.right, tries_left=tries_left,
            reward=reward.reward, done=tries_left == 0,
        )  # fmt: skip

    @property
    def state(self) -> KernelState:
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(
            name="warpsmith",
            description="Write a faster kernel; a judge verifies and times it.",
            version=warpsmith.__version__,
        )


__all__ = ["TRIES", "Form", "KernelEnvironment"]
