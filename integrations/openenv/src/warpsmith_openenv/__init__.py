"""Warpsmith's judge as an OpenEnv environment: `reset` tells a task, `step` takes a kernel's source and gives its reward."""

from __future__ import annotations

from .environment import KernelEnvironment
from .messages import KernelAction, KernelObservation, KernelState

__all__ = ["KernelAction", "KernelEnvironment", "KernelObservation", "KernelState"]
