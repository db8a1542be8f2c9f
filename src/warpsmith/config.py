"""Settings: defaults < `warpsmith.toml` in the working directory < environment (WARPSMITH_*) < flags, as one frozen Config."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_cache_path, user_data_path
from pydantic import BaseModel, ConfigDict, ValidationError

from .errors import UsageError


class Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    archive: Path = user_data_path("warpsmith") / "archive.db"  # the file that keeps every result
    cache: Path = user_cache_path("warpsmith")  # a folder for builds, measured peaks and logs
    compiler: str | None = None  # g++ when None
    threads: int | None = None  # as many as torch would use when None
    load_timeout: float = 60.0  # seconds for loading one task
    memory_gb: float | None = None  # limit for a task's own process; 80% of this machine's when None
    branches: int = 3  # hypotheses a round
    variants: int = 2  # variants a hypothesis
    confirm: int = 3  # candidates confirmed at the most
    tuner: str = "climb"  # climb or random
    near_limit: float = 0.92  # stop when the best reaches this share of the limit
    patience: int = 3  # rounds without gain before the search stops
    baselines: tuple[Literal["eager", "compile", "compile-max-autotune"], ...] = (
        "eager",
        "compile",
        "compile-max-autotune",
    )  # what candidates are timed against

    @classmethod
    def load(cls, flags: dict[str, Any] | None = None, directory: Path | None = None) -> Config:
        """Merge the sources. Raises UsageError naming the setting that is wrong."""
        merged = _from_file((directory or Path.cwd()) / "warpsmith.toml") | _from_environment()
        merged |= {k: v for k, v in (flags or {}).items() if v is not None}
        try:
            return cls(**merged)
        except ValidationError as error:
            first = error.errors()[0]
            raise UsageError(f"setting {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _from_file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path.name} cannot be read: {error}") from error


def _from_environment() -> dict[str, Any]:
    prefix = "WARPSMITH_"
    found: dict[str, Any] = {}
    for key, value in os.environ.items():
        name = key.removeprefix(prefix).lower()
        if key.startswith(prefix) and name in Config.model_fields:
            found[name] = tuple(value.split(",")) if name == "baselines" else value
    return found
