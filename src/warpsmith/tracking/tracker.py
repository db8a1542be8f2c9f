"""The contract of a tracker, and what it is told of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class TrackedRun:
    """A run as it begins. One that is resumed has the id that it had."""

    run_id: str
    task: str
    target: str
    suite: str = ""  # id of the suite that it belongs to
    settings: Mapping[str, str] = field(default_factory=dict)  # no secrets are among them


@dataclass(frozen=True)
class Ending:
    """How a run ended. `status` is a summary's, or "interrupted"; `files` are there only while `finish` runs."""

    status: str
    line: str
    values: Mapping[str, float] = field(default_factory=dict)
    files: tuple[Path, ...] = ()  # report.md, report.html, summary.json, and the winner's kernels


class Tracker(Protocol):
    """Keeps one run where people look. It is made from the text behind the colon of `--track NAME:PLACE`, and raises UsageError
    there for what is wrong before a run.

    The other calls come from one thread of its own, one after another. What they raise costs the run nothing but a line of warning.
    """

    def begin(self, run: TrackedRun) -> None:
        """Take up the run, or go on with the one of this id."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Keep values by name. `step` counts the candidates that were looked at, and never goes down."""

    def finish(self, ending: Ending) -> None:
        """Keep how it ended with its files, and let go of the run. It is called once at the most."""
