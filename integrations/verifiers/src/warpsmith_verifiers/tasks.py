"""Tasks to optimise, and their reward: the judge's, of the last reply of a rollout.

In: names of tasks, and what `warpsmith.environment.from_variables` reads: WARPSMITH_SERVER, WARPSMITH_TOKEN_FILE, WARPSMITH_TARGET,
WARPSMITH_REWARD_MODE. Out: verifiers' tasks. The whole `Reward` is kept in the trace, as `info["warpsmith"]`: it is for who trains.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Literal

import verifiers.v1 as vf
from pydantic import Field

from warpsmith.environment import Reward, write_prompt
from warpsmith.environment.from_variables import find_scorer

INFO = "warpsmith"


class KernelsConfig(vf.TasksetConfig):
    tasks: list[str] = Field(default_factory=list)
    """Names in a suite, files, or archive:ID. Those held out for the evaluation are not named here."""
    form: Literal["solution", "unit"] = "solution"
    """What the prompt asks for: a file with ModelNew, or a unit."""


class KernelData(vf.TaskData):
    task: str
    """The name of the task at the judge."""


class KernelTask(vf.Task[KernelData]):
    @vf.reward
    async def judged(self, trace: vf.Trace) -> float:
        """Judge the last reply. Not the best of several: the best of noisy measurements is better than any kernel."""
        reward = await score_reply(self.data.task, trace.last_reply)
        trace.info[INFO] = reward.model_dump(mode="json")
        trace.record_metric("right", float(reward.right))
        trace.record_metric("cheating", float(reward.cheating))
        return reward.reward


class KernelsTaskset(vf.Taskset[KernelTask, KernelsConfig]):
    def load(self) -> Iterator[KernelTask]:
        """Yield a task for each name. Raises ValueError for none, TaskError for a name that is no task."""
        if not self.config.tasks:
            raise ValueError("name the tasks: --env.taskset.tasks")
        for name in self.config.tasks:
            prompt = write_prompt(find_scorer().observe(name), self.config.form)
            yield KernelTask(KernelData(name=name, task=name, prompt=prompt), self.config.task)


async def score_reply(task: str, text: str) -> Reward:
    """Ask the judge in a thread: it takes seconds, and other rollouts go on meanwhile."""
    return await asyncio.to_thread(find_scorer().score, task, text)


__all__ = ["INFO", "KernelData", "KernelTask", "KernelsConfig", "KernelsTaskset", "score_reply"]
