"""Rollouts of one turn or several: between turns the policy is told what came of its answer, as far as a policy may know.

In: a task and the seat of the policy. Out: a trace, whose last reply `KernelTask.judged` rewards.
"""

from __future__ import annotations

import verifiers.v1 as vf
from pydantic import Field

from .tasks import KernelTask, score_reply

AGAIN = "{feedback}\n\nAnswer with a whole kernel again; the last answer counts."


class KernelsEnvConfig(vf.EnvConfig):
    policy: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    """The seat that is trained; nothing is run in its runtime, so none is rented."""
    turns: int = Field(1, ge=1)
    """Answers of one rollout; each but the last is judged for its feedback."""


class KernelsEnv(vf.Env[KernelsEnvConfig]):
    async def run(self, task: KernelTask, agents: vf.Agents) -> None:
        async with agents.policy.interaction(task) as interaction:
            segment = await interaction.turn()
            for _ in range(self.config.turns - 1):
                if segment.terminated:
                    break
                reward = await score_reply(task.data.task, segment.last_reply)
                segment = await interaction.turn(AGAIN.format(feedback=reward.feedback))


__all__ = ["AGAIN", "KernelsEnv", "KernelsEnvConfig"]
