"""The options of every command that searches, written once: a dataclass of them, and a decorator that spreads it.

Typer reads a command's options off its signature. `spread` gives a command with parameters that are such
dataclasses their fields as options, and hands each over as one value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer

from ..config import PLAYERS, Config
from ..records import Budget
from . import options as o

TIME, TIME_WITH_MODELS = "120s", "15m"  # a model's answers take a minute or more each, the expert's none
TimeOption = Annotated[
    str | None,
    typer.Option(
        "--time",
        help="Time for one task: 90, 120s, 5m, 1h; 0: no limit. "
        f"{TIME} when not given, {TIME_WITH_MODELS} when a language model plays a role.",
    ),
]


@dataclass(frozen=True)
class SearchFlags:
    target: o.TargetOption = "cpu"
    budget: o.BudgetOption = 60
    time: TimeOption = None
    seed: o.SeedOption = None
    archive: o.ArchiveOption = None
    baselines: o.BaselinesOption = None
    model: o.ModelOption = None
    reasoner: o.ReasonerOption = None
    synthesizer: o.SynthesizerOption = None
    mender: o.MenderOption = None
    checker: o.CheckerOption = None
    orchestrator: o.OrchestratorOption = None
    base_url: o.BaseUrlOption = None
    usd: o.UsdOption = None
    tokens: o.TokensOption = None
    track: o.TrackOption = None
    quiet: o.QuietOption = False

    def config(self) -> Config:
        """The settings with these flags on top. Raises UsageError."""
        models = {name: getattr(self, name) for name in (*PLAYERS, "base_url")}
        trackers = tuple(name for text in self.track for name in text.split(",")) if self.track else None
        return o.config(self.archive, self.baselines, track=trackers, **models)

    def limits(self, config: Config) -> Budget:
        """For one run with these settings. Raises UsageError."""
        from ..llm.setup import models_of

        usual = TIME_WITH_MODELS if models_of(config) else TIME
        return o.budget(self.budget, usual if self.time is None else self.time, self.usd, self.tokens)


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of its dataclass parameters as keyword parameters of its own, after its others."""
    hints = get_type_hints(command, include_extras=True)
    kinds: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters = [
        p.replace(annotation=hints[p.name])
        for p in signature(command).parameters.values()
        if p.name not in kinds
    ]
    shared = [option for kind in kinds.values() for option in list_options(kind)]

    @wraps(command)
    def flat(*args: Any, **given: Any) -> None:
        groups = {
            name: kind(**{f.name: given.pop(f.name) for f in fields(kind) if f.name in given})
            for name, kind in kinds.items()
        }
        command(*args, **groups, **given)

    flat.__signature__ = Signature([*parameters, *shared])  # type: ignore[attr-defined]
    flat.__annotations__ = {p.name: p.annotation for p in [*parameters, *shared]}
    return flat


def list_options(kind: Any) -> list[Parameter]:
    """List the fields of a dataclass as keyword parameters."""
    types = get_type_hints(kind, include_extras=True)
    return [
        Parameter(f.name, Parameter.KEYWORD_ONLY, default=f.default, annotation=types[f.name])
        for f in fields(kind)
    ]
