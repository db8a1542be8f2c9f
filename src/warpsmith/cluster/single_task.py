"""One task file on Ray, as `optimize` plays it: a suite of one run, whose errors are raised.

In: a task file, how it is played, which cluster, the archive. Out: the summary that a search on this machine would have. What cannot be
sent to a worker is refused in one line.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..archive.store import Archive
from ..errors import UsageError
from ..pipeline.live_suite import LiveSuite
from ..pipeline.suite import Suite
from ..progress import Observer
from ..records import Budget, RunSummary
from ..tasks.load import read_source
from ..tasks.saved import ENDING
from .settings import Playing, RaySettings
from .suite_ray import play_on_ray


def refuse_local_only(replay: str | None, start_from: Sequence[Any], is_of_suite: bool) -> None:
    """Raise UsageError for what only a search on this machine can do."""
    if replay is not None:
        raise UsageError("a replay reads a record alone and needs no cluster: leave --ray out")
    if start_from:
        raise UsageError("a search on a Ray cluster begins with no kernels of this machine: leave --from or --ray out")  # fmt: skip
    if is_of_suite:
        raise UsageError("a run of a suite is handed out by the suite: call run_suite(…, ray=…)")


def read_task_file(spec: str) -> Path:
    """Return the path of a task that can be sent. Raises UsageError for one whose text is not all of it, TaskError for one that
    cannot be read.
    """
    if spec.endswith(ENDING):
        raise UsageError(
            f"{spec} has its weights in another file, and a worker is sent one text: write a task file with Model and get_inputs for --ray"
        )
    source = read_source(spec)
    if source.kind == "module":
        raise UsageError(
            f"{spec} is imported, and a worker is sent one text: write a task file with Model and get_inputs for --ray"
        )
    return Path(spec)


def write_overrides(overrides: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the values as a worker receives them. Raises UsageError for one that is no JSON."""
    try:
        sent: dict[str, Any] | None = json.loads(json.dumps(overrides))
    except (TypeError, ValueError) as error:
        raise UsageError(f"--set: a value cannot be sent to a worker: {error}") from error
    return sent


def play_task_on_ray(
    path: Path, seed: int | None, budget: Budget, playing: Playing, settings: RaySettings, archive: Archive,
    observer: Observer, *, reuse: bool, overrides: dict[str, Any] | None,
) -> RunSummary:  # fmt: skip
    """Play a search of the task on one worker. `reuse`: a run that was finished with the same settings is returned.

    Raises what the search raises on its worker; UsageError without a cluster, JudgeError when no worker is there for long or
    the last of several is lost, Interrupted.
    """
    suite = Suite([(path.stem, path)], playing.target, seed=seed)
    # A worker with an archive of its own knows the runs only that it is sent: its snapshot goes on, even one that is complete.
    changes = {"overrides": overrides, "reuse": reuse or playing.sends, "raises": True}
    with LiveSuite(archive, str(path), suite, budget, None) as live:
        details = {**playing.settings, **changes, "suite": live.activity_id}
        single = replace(playing, settings=details, tells_finished=reuse)
        summaries = play_on_ray(
            suite, single, settings, archive, observer, live.add_finished, live.is_stopped
        )
        live.raise_if_stopped(len(summaries))
    return summaries[0]
