"""Warpsmith's judge for verifiers (`verifiers.v1`): the task set, the environment and the harness of the id `warpsmith-verifiers`."""

from __future__ import annotations

from .environment import KernelsEnv
from .harness import KernelsHarness
from .tasks import KernelsTaskset

__all__ = ["KernelsEnv", "KernelsHarness", "KernelsTaskset"]
