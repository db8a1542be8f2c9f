"""Weights & Biases: a run of a project, online or, with WANDB_MODE=offline, in a folder that `wandb sync` sends later."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from netrc import NetrcParseError, netrc
from urllib.parse import urlsplit

from ..errors import UsageError
from .tracker import Ending, TrackedRun

PROJECT = "warpsmith"
STEP = "candidates/seen"
FINISH_SECONDS = 25.0  # that the library may take for what is not sent yet
KEYLESS = ("offline", "disabled", "dryrun")


class WandbTracker:
    """`wandb:PROJECT` or `wandb:ENTITY/PROJECT`. A run of the caller's own stays the active one."""

    def __init__(self, place: str) -> None:
        self._wandb = import_module("wandb")
        entity, _, project = place.rpartition("/")
        self._entity, self._project = entity or None, project or PROJECT
        settings = self._wandb.setup().settings
        if settings.mode not in KEYLESS and not (settings.api_key or _has_key(settings.base_url)):
            raise UsageError("the tracker wandb has no key: run wandb login, or set WANDB_MODE=offline")

    def begin(self, run: TrackedRun) -> None:
        self._run = self._wandb.init(
            entity=self._entity,
            project=self._project,
            id=run.run_id,
            resume="allow",
            name=run.task,
            group=run.suite or None,
            config={"target": run.target, **run.settings},
            settings=self._wandb.Settings(
                console="off", silent=True, reinit="create_new", disable_git=True, save_code=False,
                finish_timeout=FINISH_SECONDS, finish_timeout_raises=True,
            ),
        )  # fmt: skip
        self._run.define_metric("*", step_metric=STEP)

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log({**values, STEP: step})

    def finish(self, ending: Ending) -> None:
        self._run.summary.update({**ending.values, "status": ending.status, "ending": ending.line})
        if ending.files:
            artifact = self._wandb.Artifact(f"warpsmith-{self._run.id}", type="warpsmith-run")
            for file in ending.files:
                artifact.add_file(str(file), name=file.name)
            self._run.log_artifact(artifact)
        self._run.finish(exit_code=1 if ending.status in ("failed", "interrupted") else 0)


def _has_key(url: str) -> bool:
    """Return whether a key is where `wandb` looks for one. Without this it would ask for one on the terminal, in the middle of a run."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    try:
        return netrc(os.environ.get("NETRC")).authenticators(urlsplit(url).hostname or "") is not None
    except (OSError, NetrcParseError):
        return False
