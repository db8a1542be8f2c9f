"""The trackers of one run together: opened from settings such as `tensorboard:runs`, told of the run, closed within a time."""

from __future__ import annotations

import time
from collections.abc import Sequence

from .. import plugins
from ..errors import UsageError
from ..records.live import LiveState
from .tracker import Ending, TrackedRun, Tracker
from .tracker_thread import TrackerThread

FINISH_SECONDS = 30.0  # that a run waits at its end, for all its trackers together


class Tracking:
    """Passes a run on to its trackers. Nothing here raises, and nothing but `finish` takes time."""

    def __init__(self, threads: Sequence[TrackerThread] = (), warnings: Sequence[str] = ()) -> None:
        self._threads, self._warnings = tuple(threads), list(warnings)
        self._has_begun = self._has_ended = False

    def __bool__(self) -> bool:
        return bool(self._threads)

    def begin(self, run: TrackedRun) -> None:
        if not self._has_begun:
            self._has_begun = True
            for thread in self._threads:
                thread.begin(run)

    def follow(self, state: LiveState) -> None:
        if self._has_begun:
            for thread in self._threads:
                thread.follow(state)

    def finish(self, ending: Ending) -> None:
        """Tell the end, and wait for the trackers. A second ending is not heard."""
        if not self._has_begun or self._has_ended:
            return
        self._has_ended = True
        deadline = time.monotonic() + FINISH_SECONDS
        for thread in self._threads:
            thread.end(ending)
        for thread in self._threads:
            thread.wait(deadline - time.monotonic())

    def take_warnings(self) -> list[str]:
        """Return the lines that were not told yet."""
        warnings, self._warnings = self._warnings, []
        return warnings + [line for thread in self._threads for line in thread.take_warnings()]


def check_trackers(settings: Sequence[str]) -> None:
    """Raise UsageError for a tracker that cannot be had, before any work."""
    for setting in settings:
        _make_tracker(setting)


def open_tracking(settings: Sequence[str], is_strict: bool = True) -> Tracking:
    """Open the trackers of one run. Raises UsageError for one that cannot be had; where that is not `is_strict`, as on a node of
    a cluster, it is a warning.
    """
    threads, warnings = list[TrackerThread](), list[str]()
    for setting in settings:
        try:
            threads.append(TrackerThread(setting.partition(":")[0], _make_tracker(setting)))
        except UsageError as error:
            if is_strict:
                raise
            warnings.append(f"{error}; the run goes on without it")
    return Tracking(threads, warnings)


def _make_tracker(setting: str) -> Tracker:
    name, _, where = setting.partition(":")
    try:
        tracker: Tracker = plugins.load("trackers", name)(where)
    except ImportError as error:
        raise UsageError(_describe_missing(name, error)) from error
    return tracker


def _describe_missing(name: str, error: ImportError) -> str:
    extra = f": pip install 'warpsmith[{name}]'" if name in plugins.BUILT_IN["trackers"] else ""
    return f"the tracker {name} needs a package that is not there ({error.name or error}){extra}"
