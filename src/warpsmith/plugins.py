"""The only registry: group → name → "module:attribute", loaded when asked for, plus what other packages announce as entry points.

A package adds a name by an entry point in the group `warpsmith.<group>`, for instance `warpsmith.targets`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any

from .errors import UsageError

BUILT_IN = MappingProxyType(
    {
        "targets": {
            "cpu": "warpsmith.targets.cpu:CpuTarget",
            "cuda": "warpsmith.targets.cuda:CudaTarget",
        },
        "executors": {
            "local": "warpsmith.executors.local:LocalExecutor",
            "replay": "warpsmith.executors.replay:ReplayExecutor",
        },
        "brains": {
            "expert": "warpsmith.agents.expert.brain:ExpertBrain",
            "llm": "warpsmith.agents.llm.brain:LlmBrain",
        },
        "tuners": {
            "climb": "warpsmith.search.tuner:HillClimb",
            "random": "warpsmith.search.tuner:RandomSearch",
            "effects": "warpsmith.search.tuner_effects:Effects",
            "race": "warpsmith.search.tuner_race:Racing",
            "tpe": "warpsmith.search.tuner_tpe:ParzenTuner",
        },
        "trackers": {
            "tensorboard": "warpsmith.tracking.tensorboard_tracker:TensorBoardTracker",
            "mlflow": "warpsmith.tracking.mlflow_tracker:MlflowTracker",
            "wandb": "warpsmith.tracking.wandb_tracker:WandbTracker",
        },
    }
)


def names(group: str) -> list[str]:
    """List every name of a group, built-in first."""
    announced = {point.name for point in entry_points(group=f"warpsmith.{group}")}
    return [*BUILT_IN[group], *sorted(announced - set(BUILT_IN[group]))]


def load(group: str, name: str) -> Any:
    """Load the object behind a name. Raises UsageError for a name nobody registered."""
    if name in BUILT_IN[group]:
        module, attribute = BUILT_IN[group][name].split(":")
        return getattr(import_module(module), attribute)
    for point in entry_points(group=f"warpsmith.{group}", name=name):
        return point.load()
    raise UsageError(f"no {group.removesuffix('s')} named {name!r}; known: {', '.join(names(group))}")
