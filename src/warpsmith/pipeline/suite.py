"""A suite, one run after another: task files in, a summary of each out, whatever happens to single tasks.

A task that cannot be loaded or judged is a summary of status "failed" with its reason; the others go on. What ends
the suite is what would end every later run too: the archive, a lost language model, the user. In one process runs are not played
side by side: they would disturb each other's timings. On GPUs lanes can (`suite_lanes.py`).
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import ArchiveError, Interrupted, ModelError, WarpsmithError
from ..progress import Observer
from ..records import RunSummary

Play = Callable[[str, int | None], RunSummary]  # a task's path and the seed of the search
Finished = Callable[[RunSummary, int], None]  # a summary, and how many runs are still to come


@dataclass(frozen=True)
class PlannedRun:
    """One run of a suite that is to be played: `index` is its place in the order of the suite."""

    index: int
    title: str  # "[3/63] softmax"
    name: str
    path: Path
    seed: int | None
    target: str


@dataclass(frozen=True)
class Suite:
    """The runs to be made: `samples` independent searches of each task, the first of every task before the second of any."""

    tasks: Sequence[tuple[str, Path]]  # name, file
    target: str = "cpu"
    samples: int = 1
    seed: int | None = None  # of the first sample; the next ones count up from it, from 0 when None

    def plan(self) -> list[PlannedRun]:
        """List the runs in their order."""
        pairs = [(sample, name, path) for sample in range(self.samples) for name, path in self.tasks]
        which = [f", search {s + 1} of {self.samples}" if self.samples > 1 else "" for s, *_ in pairs]
        return [
            PlannedRun(
                index, f"[{index + 1}/{len(pairs)}] {name}{which[index]}", name, path, self.seed_of(sample),
                self.target,
            )
            for index, (sample, name, path) in enumerate(pairs)
        ]  # fmt: skip

    def seed_of(self, sample: int) -> int | None:
        """With several samples each has a seed of its own, so that the same command finds the runs it has finished."""
        return None if self.seed is None and self.samples == 1 else (self.seed or 0) + sample


def play_suite(
    suite: Suite, play: Play, observer: Observer, logs: Path, finished: Finished | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> list[RunSummary]:  # fmt: skip
    """Every run in order; `finished` hears of each at once. After a summary with a `fault`, or once it is stopped, there is none.

    Raises ArchiveError, ModelError, Interrupted. Tracebacks of faults in this program are kept in the folder `logs`.
    """
    plan = suite.plan()
    summaries: list[RunSummary] = []
    for run in plan:
        if is_stopped():
            break
        observer.note(run.title)
        summary = play_safely(run.path, run.seed, run.target, play, observer, logs)
        summaries.append(summary.model_copy(update={"task": run.name}))
        if finished is not None:
            finished(summaries[-1], len(plan) - len(summaries))
        if summary.fault:
            observer.note(f"the suite stops here: {summary.fault}")
            break
    return summaries


def play_safely(
    path: Path,
    seed: int | None,
    target: str,
    play: Play,
    observer: Observer,
    logs: Path,
    raises: bool = False,
) -> RunSummary:
    """Play one run; what ends this task alone is a summary of status "failed".

    Raises ArchiveError, ModelError, Interrupted; with `raises` every WarpsmithError.
    """
    try:
        return play(str(path), seed)
    except (ArchiveError, ModelError, Interrupted):
        raise
    except WarpsmithError as error:
        if raises:
            raise
        reason = str(error)
    except Exception as error:  # noqa: BLE001 - a fault that one task brings out must not end a run over hundreds
        reason = (
            f"this is a bug in warpsmith ({type(error).__name__}: {error}){_log_traceback(error, path, logs)}"
        )
    failed = make_failed(path.stem, seed, target, reason)
    observer.finish(failed)
    return failed


def make_failed(task: str, seed: int | None, target: str, reason: str) -> RunSummary:
    """Make the summary of a run that came to nothing."""
    return RunSummary(
        run_id="", task=task, target=target, status="failed", reason=" ".join(reason.split()), seed=seed or 0
    )


def _log_traceback(error: Exception, path: Path, logs: Path) -> str:
    """Keep the traceback in a file; returns where it is, for the reason."""
    file = logs / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{path.stem}.log"
    try:
        logs.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{path}\n{''.join(traceback.format_exception(error))}")
    except OSError:
        return ""
    return f"; details in {file}"
