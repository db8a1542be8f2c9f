"""What crosses OpenEnv's wire: an action, what a policy may see of its outcome, and the state, which is for who trains."""

from __future__ import annotations

from typing import Any

from openenv.core.env_server import Action, Observation, State
from pydantic import Field


class KernelAction(Action):
    source: str = Field(description="the answer: a unit or a file with ModelNew, alone or in a block of code")


class KernelObservation(Observation):
    """Nothing here quotes inputs, seeds or secret shapes: all of it may be shown to a policy."""

    task: str = ""
    prompt: str = ""  # after `reset` only
    feedback: str = ""  # after `step`: what came of it
    status: str = ""  # of the judge
    right: bool = False
    tries_left: int = 0


class KernelState(State):
    """`rewards` are whole, with parts, labels, reason and evidence, which may quote values of inputs: not for a policy."""

    task: str = ""
    rewards: list[dict[str, Any]] = []
