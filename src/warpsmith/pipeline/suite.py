"""A suite, one run after another: task files in, a summary of each out, whatever happens to single tasks.

A task that cannot be loaded or judged is a summary of status "failed" with its reason; the others go on. What ends
the suite is what would end every later run too: the archive, a lost language model, the user. Runs are not played side
by side: on one machine they would disturb each other's timings.
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
class Suite:
    """The runs to be made: `samples` independent searches of each task, the first of every task before the second of any."""

    tasks: Sequence[tuple[str, Path]]  # name, file
    target: str = "cpu"
    samples: int = 1
    seed: int | None = None  # of the first sample; the next ones count up from it, from 0 when None

    def seed_of(self, sample: int) -> int | None:
        """With several samples each has a seed of its own, so that the same command finds the runs it has finished."""
        return None if self.seed is None and self.samples == 1 else (self.seed or 0) + sample


def play_suite(
    suite: Suite, play: Play, observer: Observer, logs: Path, finished: Finished | None = None
) -> list[RunSummary]:
    """Every run in order; `finished` hears of each at once. After a summary with a `fault` there is none.

    Raises ArchiveError, ModelError, Interrupted. Tracebacks of faults in this program are kept in the folder `logs`.
    """
    plan = [(sample, name, path) for sample in range(suite.samples) for name, path in suite.tasks]
    summaries: list[RunSummary] = []
    for number, (sample, name, path) in enumerate(plan, 1):
        which = f", search {sample + 1} of {suite.samples}" if suite.samples > 1 else ""
        observer.note(f"[{number}/{len(plan)}] {name}{which}")
        summary = _play(suite, play, path, suite.seed_of(sample), observer, logs)
        summaries.append(summary.model_copy(update={"task": name}))
        if finished is not None:
            finished(summaries[-1], len(plan) - number)
        if summary.fault:
            observer.note(f"the suite stops here: {summary.fault}")
            break
    return summaries


def _play(
    suite: Suite, play: Play, path: Path, seed: int | None, observer: Observer, logs: Path
) -> RunSummary:
    try:
        return play(str(path), seed)
    except (ArchiveError, ModelError, Interrupted):
        raise
    except WarpsmithError as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001 - a fault that one task brings out must not end a run over hundreds
        reason = (
            f"this is a bug in warpsmith ({type(error).__name__}: {error}){_log_traceback(error, path, logs)}"
        )
    failed = RunSummary(
        run_id="", task=path.stem, target=suite.target, status="failed", reason=" ".join(reason.split()),
        seed=seed or 0,
    )  # fmt: skip
    observer.finish(failed)
    return failed


def _log_traceback(error: Exception, path: Path, logs: Path) -> str:
    """Keep the traceback in a file; returns where it is, for the reason."""
    file = logs / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{path.stem}.log"
    try:
        logs.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{path}\n{''.join(traceback.format_exception(error))}")
    except OSError:
        return ""
    return f"; details in {file}"
