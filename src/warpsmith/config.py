"""Settings: defaults < `warpsmith.toml` in the working directory < environment (WARPSMITH_*) < flags, as one frozen Config."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_cache_path, user_data_path
from pydantic import BaseModel, ConfigDict, NonNegativeFloat, PositiveFloat, PositiveInt, ValidationError

from .errors import UsageError
from .places import ArchiveSetting

CACHE_REMEDY = "set WARPSMITH_CACHE or XDG_CACHE_HOME to a folder that can be written"
PLAYERS = ("model", "reasoner", "synthesizer", "mender", "checker", "orchestrator")
REACHED = (
    "base_url",
    "model_timeout",
    "model_concurrency",
    "price",
    "track",
)  # how models are reached and who is told, not what a run does
# Settings that runs of version 0.1 did not have: they take no part in a run's identity at their default.
SEARCHED = (
    "policy",
    "islands",
    "novelty",
    "selection",
    "elites",
    "steering",
    "worth",
    "transplant",
    "authors",
    "simplify",
    "without",
)  # how the search is made
LATER = (
    *PLAYERS, *SEARCHED, "screening", "temperature", "max_answer_tokens", "knowledge", "examples", "profiles", "lessons", "reuse", "judge_memory_gb",
    "timed_on",
)  # fmt: skip


class Config(BaseModel):
    """The settings of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    archive: ArchiveSetting = user_data_path("warpsmith") / "archive.db"  # keeps every result: file or URL
    cache: Path = user_cache_path("warpsmith")  # a folder for builds, measured peaks and logs
    compiler: str | None = None  # g++ when None
    threads: PositiveInt | None = None  # as many as torch would use when None
    load_timeout: PositiveFloat = 60.0  # seconds for loading one task
    memory_gb: PositiveFloat | None = None  # limit for a task's own process; 80% of this machine's when None
    judge_memory_gb: PositiveFloat | None = (
        None  # what judging may take of this machine's memory; what is free when None
    )
    timed_on: tuple[int, ...] | None = None  # processors kept for what is timed on a GPU; any when None
    branches: PositiveInt = 3  # hypotheses a round
    variants: PositiveInt = 2  # variants a hypothesis
    confirm: PositiveInt = 3  # candidates confirmed at the most; later ones only while there is time
    tuner: str = "climb"  # climb, effects, race, random, tpe
    near_limit: PositiveFloat = 0.92  # stop when the best reaches this share of the limit
    screening: Literal["auto", "on", "off"] = (
        "auto"  # of all candidates before any gets a verdict; auto: on a GPU
    )
    patience: PositiveInt = 3  # rounds without gain before the search stops
    baselines: tuple[Literal["eager", "compile", "compile-max-autotune"], ...] = (
        "eager",
        "compile",
        "compile-max-autotune",
    )  # what candidates are timed against
    model: str | None = None  # who plays the five roles: expert, or PROVIDER:NAME, also several with commas
    reasoner: str | None = None  # who proposes hypotheses; `model` when None
    synthesizer: str | None = None  # who writes kernels; `model` when None
    mender: str | None = None  # who repairs what does not build; `model` when None
    checker: str | None = None  # who repairs wrong results and reviews; `model` when None
    orchestrator: str | None = None  # who allots rounds; `model` when None
    base_url: str | None = None  # an OpenAI-compatible server for models named openai:NAME
    temperature: NonNegativeFloat | None = None  # of the models; their provider's default when None
    max_answer_tokens: PositiveInt = 16_000  # a longer answer is cut off
    model_timeout: PositiveFloat = 300.0  # seconds for one answer
    model_concurrency: PositiveInt = 4  # questions under way at once
    price: str | None = None  # in/out, dollars per million tokens, of models whose price is not known
    knowledge: bool = True  # models are told written knowledge and good kernels of other tasks
    examples: bool = True  # of these, good kernels: of other tasks, and the built-in expert's for this one
    profiles: bool = True  # models are told what was measured of kernels, beyond their times
    lessons: bool = True  # models are told what ended failures before, and what they learn is kept
    policy: Literal["bandit", "even", "fixed"] = "bandit"  # who shares a round among the operators
    islands: PositiveInt = 3  # populations that evolve apart
    novelty: NonNegativeFloat = 0.995  # likeness from which a candidate is not judged; 0: all are
    selection: Literal["interval", "point"] = "interval"  # what ranks go by
    elites: bool = True  # the best of each behaviour stays a parent
    steering: bool = True  # regions near their limit are left alone
    worth: PositiveFloat = 1.02  # a gain below this is not worth going on
    transplant: bool = True  # sound units of other tasks are tried
    authors: bool = True  # kernels that others wrote for this very task join the search
    simplify: bool = True  # less code at equal speed wins
    reuse: bool = True  # what earlier runs judged is taken from the archive, and costs no evaluation
    without: tuple[str, ...] = ()  # operators that are left out
    track: tuple[str, ...] = ()  # tensorboard:FOLDER, mlflow:URI, wandb:PROJECT, that hear of runs

    def identity(self) -> dict[str, Any]:
        """Return the settings that decide how a run goes, as JSON. Settings that came later are left out at their default, so that they do
        not part runs from those before; how a model is reached is no part of it.
        """
        dumped = self.model_dump(mode="json", exclude=set(REACHED))
        defaults = type(self)().model_dump(mode="json", include=set(LATER))
        return {k: v for k, v in dumped.items() if k not in LATER or v != defaults[k]}

    def screens(self, device: str) -> bool:
        """Return whether candidates for a device ("cpu", "cuda") are screened before any gets a verdict."""
        return self.screening == "on" or (self.screening == "auto" and device == "cuda")

    @classmethod
    def load(cls, flags: dict[str, Any] | None = None, directory: Path | None = None) -> Config:
        """Merge the sources. Raises UsageError naming the setting that is wrong."""
        merged = _read_file((directory or Path.cwd()) / "warpsmith.toml") | _read_environment()
        merged |= {k: v for k, v in (flags or {}).items() if v is not None}
        try:
            return cls(**merged)
        except ValidationError as error:
            first = error.errors()[0]
            raise UsageError(
                f"setting {'.'.join(map(str, first['loc']))}: {first['msg'].removeprefix('Value error, ')}"
            ) from error


def _read_file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path.name} cannot be read: {error}") from error


def _read_environment() -> dict[str, Any]:
    prefix = "WARPSMITH_"
    settings: dict[str, Any] = {}
    for key, value in os.environ.items():
        name = key.removeprefix(prefix).lower()
        if key.startswith(prefix) and name in Config.model_fields:
            settings[name] = (
                tuple(value.split(",")) if name in ("baselines", "without", "timed_on", "track") else value
            )
    return settings
