"""Chooses the observer of a search that was started from Python: for a terminal, a notebook, or none; shows a notebook what it returns.

In: the caller's own observer or wish. Out: an observer. A library stays quiet in a pipe unless it is asked to speak.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from .progress import (
    Observer,
    PlainObserver,
    RichObserver,
    SilentObserver,
    closing_line,
    duration,
    observer_for,
)
from .records import Result, RunSummary

Display = Callable[..., Any]  # IPython's


@contextmanager
def watching(observer: Observer | None, progress: bool | None) -> Iterator[Observer]:
    """The caller's observer, or one that suits where this process runs, which is closed at the end.

    `progress`: False says nothing, True always something, None only where somebody looks: on a terminal or in a notebook.
    """
    register_short_forms()
    if observer is not None:
        yield observer
        return
    with choose_observer(progress) as chosen:
        yield chosen


def choose_observer(
    progress: bool | None,
) -> SilentObserver | PlainObserver | RichObserver | NotebookObserver:
    if progress is not None and not progress:
        return SilentObserver()
    display = notebook_display()
    if display is not None:
        return NotebookObserver(display)
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return observer_for(quiet=not (progress or is_terminal))


def register_short_forms() -> None:
    """Let a notebook show summaries and results by the short form of their reports. Elsewhere nothing happens."""
    formatter = getattr(find_notebook_shell(), "display_formatter", None)
    if formatter is None:
        return
    from .pages.short_form import render_result, render_summary

    html = formatter.formatters["text/html"]
    html.for_type(RunSummary, render_summary)
    html.for_type(Result, render_result)


def find_notebook_shell() -> Any:
    """Return IPython's shell where this process is a notebook's kernel; else None. IPython itself is not imported for it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell if hasattr(shell, "kernel") else None


def notebook_display() -> Display | None:
    """Return IPython's `display` where this process is a notebook's kernel; else None."""
    if find_notebook_shell() is None:
        return None
    display: Display = import_module("IPython.display").display
    return display


class NotebookObserver:
    """One line of a cell's output, written anew in its place: what is happening, candidates judged, the best, the time left.

    It needs no widgets, which many notebooks do not have.
    """

    def __init__(self, display: Display, clock: Callable[[], float] = time.monotonic) -> None:
        self._display, self._clock = display, clock
        self._line: Any = None  # the handle of the line, once it is there
        self._stage = self._judged = ""
        self._deadline: float | None = None

    def stage(self, text: str) -> None:
        self._stage = text
        self._show()

    def evaluated(
        self, done: int, total: int | None, status: str, best_text: str, seconds_left: float | None
    ) -> None:
        of_total = f"/{total}" if total is not None else ""
        best = f"best {best_text}" if best_text else "nothing faster yet"
        self._judged = f"{done}{of_total} judged · {best}"
        self._deadline = None if seconds_left is None else self._clock() + seconds_left
        self._show()

    def note(self, text: str) -> None:
        self._display(_plain(text), raw=True)

    def finish(self, summary: RunSummary) -> None:
        self._write(closing_line(summary))
        self._line, self._stage, self._judged, self._deadline = None, "", "", None

    def _show(self) -> None:
        time_left = ""
        if self._deadline is not None:
            time_left = f"{duration(max(0.0, self._deadline - self._clock()))} left"
        self._write(" · ".join(part for part in (self._stage, self._judged, time_left) if part))

    def _write(self, text: str) -> None:
        if self._line is None:
            self._line = self._display(_plain(text), raw=True, display_id=True)
        else:
            self._line.update(_plain(text), raw=True)

    def __enter__(self) -> NotebookObserver:
        return self

    def __exit__(self, *_: object) -> None: ...


def _plain(text: str) -> dict[str, str]:
    return {"text/plain": text}
