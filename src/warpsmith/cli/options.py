"""Options that several commands share, and how their text becomes values."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Annotated, Any

import typer

from ..budgets import parse_seconds
from ..config import Config
from ..errors import UsageError
from ..records import Budget

MAX_SEED = 2**32 - 1  # samples of a suite count up from it, and an archive holds 63 bits
MAX_COUNT = 2**31 - 1

TargetOption = Annotated[str, typer.Option("--target", help="What to generate code for.")]
BudgetOption = Annotated[
    int, typer.Option("--budget", max=MAX_COUNT, help="Candidates to judge at the most; 0: no limit.")
]
TimeOption = Annotated[str, typer.Option("--time", help="Time for one task: 90, 120s, 5m, 1h; 0: no limit.")]
SeedOption = Annotated[
    int | None, typer.Option("--seed", min=0, max=MAX_SEED, help="Seed of every random choice; else drawn.")
]
JsonOption = Annotated[
    str | None, typer.Option("--json", metavar="PATH|-", help="Write the outcome as JSON.")
]
ArchiveOption = Annotated[
    str | None,
    typer.Option("--archive", metavar="FILE|URL", help="The archive to use: a file, or postgresql://…"),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Override a constant of the task's file. Repeatable."),
]
BaselinesOption = Annotated[
    str | None,
    typer.Option("--baselines", help="Comma-separated: eager,compile,compile-max-autotune (all by default)."),
]
MODEL_HELP = "PROVIDER:NAME, several separated by commas, or expert."
ModelOption = Annotated[str | None, typer.Option("--model", help=f"Who plays all roles: {MODEL_HELP}")]
ReasonerOption = Annotated[str | None, typer.Option("--reasoner", help="Who proposes hypotheses.")]
SynthesizerOption = Annotated[str | None, typer.Option("--synthesizer", help="Who writes kernels.")]
MenderOption = Annotated[str | None, typer.Option("--mender", help="Who repairs what does not build.")]
CheckerOption = Annotated[
    str | None, typer.Option("--checker", help="Who reviews and repairs wrong results.")
]
OrchestratorOption = Annotated[str | None, typer.Option("--orchestrator", help="Who allots rounds.")]
BaseUrlOption = Annotated[
    str | None, typer.Option("--base-url", help="An OpenAI-compatible server for models named openai:NAME.")
]
UsdOption = Annotated[float | None, typer.Option("--usd", min=0, help="Dollars for models, for one task.")]
TokensOption = Annotated[
    int | None, typer.Option("--tokens", min=0, max=MAX_COUNT, help="Tokens of models, for one task.")
]
TrackOption = Annotated[
    list[str] | None,
    typer.Option(
        "--track",
        metavar="NAME:PLACE",
        help="A tracker that hears of each run: tensorboard:FOLDER, mlflow:URI, wandb:PROJECT. Repeatable.",
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Write over what is there.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")]


def seconds(text: str, option: str = "--time") -> float | None:
    """ "120s" → 120.0, "2m" → 120.0, "0" → None (no limit). Raises UsageError."""
    limit = parse_seconds(text)
    if limit is None:
        raise UsageError(f"{option} {text}: give a number with s, m or h, for instance 120s or 5m")
    return limit or None


def budget(evaluations: int, time: str, usd: float | None = None, tokens: int | None = None) -> Budget:
    if evaluations < 0:
        raise UsageError(f"--budget {evaluations}: give the number of candidates to judge, or 0 for no limit")
    limit = seconds(time)
    if not evaluations and limit is None:
        raise UsageError("--budget 0 with --time 0 would never end: limit one of them")
    return Budget(evaluations=evaluations or None, seconds=limit, usd=usd, tokens=tokens)


def overrides(settings: list[str] | None) -> dict[str, Any] | None:
    """["dim=1024", "mode=mean"] → {"dim": 1024, "mode": "mean"}. Values are Python literals, else text."""
    values: dict[str, Any] = {}
    for setting in settings or ():
        name, equals, value = setting.partition("=")
        if not equals or not name.strip().isidentifier():
            raise UsageError(f"--set {setting}: give NAME=VALUE, for instance --set batch_size=64")
        try:
            values[name.strip()] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            values[name.strip()] = value
    return values or None


def config(archive: Path | str | None = None, baselines: str | None = None, **flags: Any) -> Config:
    """The settings with these flags on top; a flag that is None leaves the setting as it is."""
    names = tuple(n.strip() for n in baselines.split(",") if n.strip()) if baselines else None
    known_baselines = Config().baselines
    for name in names or ():
        if name not in known_baselines:
            raise UsageError(f"--baselines: {name} is none; known are {', '.join(known_baselines)}")
    return Config.load({"archive": archive, "baselines": names, **flags})
