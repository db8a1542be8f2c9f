"""Observers tell the user what a run does while it works.

In: events of a run. Out: a live line, plain lines or nothing, on standard error. Results go to standard
output and are printed by the faces; observers say what is happening, the best so far and the time left.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.text import Text

from .records import RunSummary
from .records.intervals import describe_ratio, is_unknown

PLAIN_INTERVAL_S = 2.0  # between two plain lines about evaluations


class Observer(Protocol):
    """Hears of a run. Any object with these four methods will do. Calls come from one thread and must return at once."""

    def stage(self, text: str) -> None:
        """Another step begins: "loading examples/softmax.py", "timing baseline compile"."""

    def evaluated(
        self, done: int, total: int | None, status: str, best_text: str, seconds_left: float | None
    ) -> None:
        """One more candidate was judged.

        Args:
            done: Candidates judged so far.
            total: The budget's number of candidates; None without a limit.
            status: How it ended: `"ok"`, `"incorrect"`, `"build-failed"`, ….
            best_text: The best so far with its baseline; empty while nothing is faster.
            seconds_left: Seconds until the search ends; None without a limit.
        """

    def note(self, text: str) -> None:
        """The run has something to say that is worth a line of its own."""

    def finish(self, summary: RunSummary) -> None:
        """The run of one task is over."""


class SilentObserver:
    """Stay silent."""

    def stage(self, text: str) -> None: ...

    def evaluated(
        self, done: int, total: int | None, status: str, best_text: str, seconds_left: float | None
    ) -> None: ...

    def note(self, text: str) -> None: ...

    def finish(self, summary: RunSummary) -> None: ...

    def __enter__(self) -> SilentObserver:
        return self

    def __exit__(self, *_: object) -> None: ...


class PlainObserver:
    """Plain lines for pipes and logs: every new stage and best, other evaluations every two seconds."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream or sys.stderr, clock
        self._stage = self._best = ""
        self._last = -PLAIN_INTERVAL_S

    def stage(self, text: str) -> None:
        if text != self._stage:
            self._stage = text
            self._print(text)

    def evaluated(
        self, done: int, total: int | None, status: str, best_text: str, seconds_left: float | None
    ) -> None:
        if best_text == self._best and self._clock() - self._last < PLAIN_INTERVAL_S:
            return
        self._best, self._last = best_text, self._clock()
        of_total = f"/{total}" if total is not None else ""
        best = f", best {best_text}" if best_text else ", nothing faster yet"
        time_left = f", {duration(max(0.0, seconds_left))} left" if seconds_left is not None else ""
        self._print(f"judged {done}{of_total}: {status}{best}{time_left}")

    def note(self, text: str) -> None:
        self._print(text)

    def finish(self, summary: RunSummary) -> None:
        self._print(closing_line(summary))
        self._stage = self._best = ""

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def __enter__(self) -> PlainObserver:
        return self

    def __exit__(self, *_: object) -> None: ...


class TimeLeft(ProgressColumn):
    """Counts down between events, so that a long step does not look like a stuck one."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        deadline = task.fields.get("deadline")
        if deadline is None:
            return Text(f"{duration(task.elapsed or 0.0)} so far", style="dim")
        return Text(f"{duration(max(0.0, deadline - time.monotonic()))} left", style="dim")


class RichObserver:
    """A live line on a terminal: what is happening, candidates judged, the best so far, the time left."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._progress: Progress | None = None
        self._task = TaskID(0)

    def stage(self, text: str) -> None:
        self._live().update(self._task, description=text)

    def evaluated(
        self, done: int, total: int | None, status: str, best_text: str, seconds_left: float | None
    ) -> None:
        deadline = None if seconds_left is None else time.monotonic() + seconds_left
        of = f"/{total}" if total is not None else ""
        self._live().update(
            self._task, completed=done, total=total, deadline=deadline, count=f"{done}{of} judged",
            best=best_text or "nothing faster yet",
        )  # fmt: skip

    def note(self, text: str) -> None:
        console = self._progress.console if self._progress else self._console
        console.print(text, markup=False, highlight=False)

    def finish(self, summary: RunSummary) -> None:
        self._stop()
        self.note(closing_line(summary))

    def _live(self) -> Progress:
        if self._progress is None:
            self._progress = Progress(
                SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(bar_width=24),
                TextColumn("{task.fields[count]}", markup=False),
                TextColumn("{task.fields[best]}", style="bold green", markup=False), TimeLeft(),
                console=self._console, transient=True, refresh_per_second=4,
            )  # fmt: skip
            self._task = self._progress.add_task("", total=None, count="", best="", deadline=None)
            self._progress.start()
        return self._progress

    def _stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def __enter__(self) -> RichObserver:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()


def observer_for(quiet: bool) -> SilentObserver | PlainObserver | RichObserver:
    """The observer that suits standard error: live on a terminal, plain lines in a pipe, none when quiet."""
    if quiet:
        return SilentObserver()
    console = Console(stderr=True)
    return RichObserver(console) if console.is_terminal else PlainObserver()


def closing_line(summary: RunSummary) -> str:
    """One line about a finished run: its speedup with baseline and interval, or why there is none."""
    best = summary.best
    if best is None or summary.status == "failed":
        return f"{summary.task}: {summary.status}: {summary.reason or summary.stopped}"
    limit = f", {best.limit_share:.0%} of the limit" if not is_unknown(best.speedup) else ""
    screened = f"{summary.screened} screened, " if summary.screened else ""
    return (
        f"{summary.task}: {summary.status}: {describe_ratio(best.speedup)} over {best.speedup.baseline}{limit}, "
        f"{screened}{summary.evaluations} judged in {duration(summary.seconds)}"
    )


def counted(number: int, noun: str) -> str:
    """Write a number with its noun: "1 node", "3 nodes". The plural takes an s."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def duration(seconds: float) -> str:
    """Write seconds for people: 45 → "45s", 150 → "2m 30s"."""
    rounded = round(seconds)
    return f"{rounded}s" if rounded < 120 else f"{rounded // 60}m {rounded % 60:02d}s"
