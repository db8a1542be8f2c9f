"""A lane: the process that plays runs of a suite, one after the other. It is started as a worker (`suite_lanes.py`).

In (requests): `start` with the name of the function that plays a run and its settings, then `play` a task. Out: lines of progress and
closing summaries while a run goes on, then its summary. The process stays from one run to the next, and with it what
it has loaded. SIGTERM interrupts it as Ctrl-C interrupts a run.
"""

from __future__ import annotations

import os
import pkgutil
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from ..processes.worker import serve, tell
from ..progress import Observer, PlainObserver
from ..records import RunSummary
from .suite import play_safely

# A task's path, the seed of the search, the observer, the settings.
LanePlay = Callable[[str, int | None, Observer, dict[str, Any]], RunSummary]


class LaneObserver(PlainObserver):
    """Sends its lines to the process that shows them, and the closing summary of a run."""

    def __init__(self) -> None:
        super().__init__()
        self._sending = threading.Lock()

    def finish(self, summary: RunSummary) -> None:
        self._stage = self._best = ""
        with self._sending:
            tell(closing=summary.model_dump_json())

    def _print(self, text: str) -> None:
        with self._sending:
            tell(line=text)


class Lane:
    def start(
        self, play: str, settings: dict[str, Any], target: str, folder: str, logs: str,
        processors: Sequence[int],
    ) -> None:  # fmt: skip
        """`play`: "module:function", a `LanePlay`. `folder`: that of the command, where relative paths begin."""
        os.chdir(folder)
        os.sched_setaffinity(0, processors)
        self._function: LanePlay = pkgutil.resolve_name(play)
        self._settings, self._target, self._logs = settings, target, Path(logs)
        self._observer = LaneObserver()

    def play(self, path: str, seed: int | None) -> dict[str, Any]:
        def play_once(path: str, seed: int | None) -> RunSummary:
            return self._function(path, seed, self._observer, self._settings)

        raises = bool(self._settings.get("raises"))
        summary = play_safely(Path(path), seed, self._target, play_once, self._observer, self._logs, raises)
        return {"summary": summary.model_dump_json()}

    def handlers(self) -> dict[str, Any]:
        return {"start": self.start, "play": self.play}


def interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    serve(Lane().handlers())
