"""Tells one tracker of a run from a thread of its own, so that a slow network never holds the search.

Only the newest state is kept: a tracker that is behind leaves out what lies between. The first failure is kept as one line of warning; live
values end there, and the ending is tried all the same.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable

from ..records.live import LiveState
from .tracker import Ending, TrackedRun, Tracker
from .values import count_candidates, list_live_values

GAP_SECONDS = 0.5  # between two calls of `log`
MAX_WARNING = 300  # characters of what a tracker says
PASSWORD = re.compile(r"(?<=://)[^/\s@]*@")


class TrackerThread:
    def __init__(self, name: str, tracker: Tracker) -> None:
        self.name, self._tracker = name, tracker
        self._news = threading.Condition()
        self._state: LiveState | None = None
        self._ending: Ending | None = None
        self._warnings: list[str] = []
        self._failed = False
        self._thread: threading.Thread | None = None

    def begin(self, run: TrackedRun) -> None:
        self._thread = threading.Thread(
            target=self._work, args=(run,), name=f"track-{self.name}", daemon=True
        )
        self._thread.start()

    def follow(self, state: LiveState) -> None:
        """Hear of a state; returns at once."""
        with self._news:
            self._state = state
            self._news.notify()

    def end(self, ending: Ending) -> None:
        """Hear of the end; returns at once."""
        with self._news:
            if self._ending is None:
                self._ending = ending
                self._news.notify()

    def wait(self, seconds: float) -> None:
        """Wait until the tracker has let go of the run, so long at most."""
        if self._thread is None:
            return
        self._thread.join(max(0.0, seconds))
        if self._thread.is_alive():
            self._warn("did not answer in time, so what it has of the end of this run is not known")

    def take_warnings(self) -> list[str]:
        """Return what was not told yet."""
        with self._news:
            warnings, self._warnings = self._warnings, []
        return warnings

    def _work(self, run: TrackedRun) -> None:
        if not self._attempt("did not begin", lambda: self._tracker.begin(run)):
            return
        step, values = -1, dict[str, float]()
        while True:
            with self._news:
                self._news.wait_for(lambda: self._state is not None or self._ending is not None)
                state, ending, self._state = self._state, self._ending, None
            if state is not None and not self._failed:
                newer = list_live_values(state)
                if newer != values:
                    step, values = max(step, count_candidates(state)), newer
                    self._attempt("stopped", lambda: self._tracker.log(values, step))  # noqa: B023 - called at once
            if ending is not None:
                self._attempt("did not finish", lambda: self._tracker.finish(ending))  # noqa: B023 - called at once
                return
            self._pause()

    def _pause(self) -> None:
        deadline = time.monotonic() + GAP_SECONDS
        with self._news:
            self._news.wait_for(lambda: self._ending is not None, max(0.0, deadline - time.monotonic()))

    def _attempt(self, what: str, call: Callable[[], None]) -> bool:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - another's library, whose faults must not end a run
            text = " ".join(f"{type(error).__name__}: {error}".split())
            self._warn(f"{what}: {PASSWORD.sub('', text)[:MAX_WARNING]}; the run goes on")
            return False
        return True

    def _warn(self, text: str) -> None:
        with self._news:
            if not self._failed:
                self._warnings.append(f"the tracker {self.name} {text}")
            self._failed = True
