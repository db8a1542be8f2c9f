"""Tells the archive what this process works on, while it does, and brings it what people ask for.

In: what a run, a suite or a session of authors says of itself, from any of its threads. Out: rows of `activities`, written by one thread at
most twice a second and every ten seconds without news; experiment trackers hear the same state in threads of their own. Nothing here may end
or slow down the work: an archive that is busy gets the state at the next turn.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from ..agents.base import Attempt
from ..archive.activities import Activities
from ..archive.changes import ChangeWatch
from ..archive.inbox import Inbox
from ..archive.store import Archive, now
from ..errors import ArchiveError, Interrupted, WarpsmithError
from ..progress import Observer, closing_line
from ..records import Candidate, RunSummary
from ..records.live import ActivityKind, LiveCandidate, LiveState
from ..tracking import Ending, TrackedRun, Tracking
from ..wording import label

TURN_SECONDS = 0.5  # between two looks for news
HEARTBEAT_SECONDS = 10.0
STOPPED = "stopped by request"
STOP_ANSWERS: Mapping[ActivityKind, str] = {
    "run": "it ends: no other candidate is judged, and the best is confirmed first",
    "suite": "no other run begins; those under way end",
    "authors": "it takes no other submission",
}


class LiveActivity:
    """A context manager: what happens within is told to the archive. Raises ArchiveError where that cannot be begun."""

    def __init__(
        self,
        archive: Archive,
        kind: ActivityKind,
        title: str,
        target: str,
        parent: str = "",
        tracking: Tracking | None = None,
        **state: Any,
    ) -> None:
        self.tracking = tracking or Tracking()
        self.inbox, self._activities = Inbox(archive.database), Activities(archive.database)
        self._watch = ChangeWatch(archive.database)
        self._begun_as = (kind, title, target, parent)
        self._state, self._lines = LiveState(**state), list[tuple[str, str]]()
        self.activity_id = self.run_id = ""
        self.on_stop: Callable[[str], None] = lambda why: None
        self.stopped = ""
        self._ending = ""
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._news = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)

    def begin(self) -> None:
        """Raises ArchiveError."""
        self.activity_id = self._activities.begin(*self._begun_as, self._state)
        self._thread = threading.Thread(target=self._tell, name="live", daemon=True)
        self._thread.start()

    def close(self, error: BaseException | None = None) -> None:
        """Tell that it ended, and how. Safe to call twice."""
        if self._ended.is_set():
            return
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self.tracking.finish(Ending(_name_ending(error), self._describe_ending(error)))
        self._watch.close()
        try:
            self.inbox.close(self.activity_id, self.run_id)
            state, lines = self._take_news()
            state = state.model_copy(update={"candidates": (), "search_ends_at": None})
            self._activities.end(self.activity_id, state, self._describe_ending(error), lines, self.run_id)
        except ArchiveError:
            pass  # whoever looks sees that this process is gone

    # -- from any thread of the work

    def change(self, **values: Any) -> None:
        """Change fields of the state."""
        with self._lock:
            self._state = self._state.model_copy(update=values)
            self._news = True
            self.tracking.follow(self._state)

    def say(self, line: str) -> None:
        """Add a line to the log."""
        with self._lock:
            self._lines.append((now(), line))
            self._news = True

    def name_run(self, run_id: str, task: str = "", settings: Mapping[str, str] | None = None) -> None:
        """Tell which run it is; its trackers begin."""
        self.run_id = run_id
        _, title, target, parent = self._begun_as
        self.tracking.begin(TrackedRun(run_id, task or title, target, parent, settings or {}))
        self.change()

    def move(self, candidate: Candidate, stage: str) -> None:
        """Put a candidate at another stage; "" where nobody works on it any more. What was not built before is a part of another one."""
        with self._lock:
            before = self._state.candidates
            remaining = tuple(c for c in before if c.candidate_id != candidate.id)
            if stage and (stage == "building" or len(remaining) < len(before)):
                at = {"candidate_id": candidate.id, "label": label(candidate), "stage": stage}
                remaining = (*remaining, LiveCandidate.model_validate(at))
            self._state = self._state.model_copy(update={"candidates": remaining})
            self._news = True

    def finish(self, ending: str) -> None:
        """Say in a line how it ended; without that the error that ended it says so."""
        self._ending = ending

    def observe(self, observer: Observer) -> Observer:
        """Return an observer that tells this one, too."""
        return LiveObserver(self, observer)

    # -- the thread that tells

    def _tell(self) -> None:
        noted_at = time.monotonic()
        while not self._ended.wait(TURN_SECONDS):
            try:
                if self._watch.notice_change():
                    self._look_for_stop()
                if self._news or time.monotonic() - noted_at > HEARTBEAT_SECONDS:
                    self._note()
                    noted_at = time.monotonic()
            except ArchiveError:
                continue  # busy, or not there for a moment: the next turn tells it

    def _note(self) -> None:
        state, lines = self._take_news()
        try:
            self._activities.note(self.activity_id, state, self.run_id, lines)
        except ArchiveError:
            with self._lock:
                self._lines, self._news = [*lines, *self._lines], True
            raise

    def _take_news(self) -> tuple[LiveState, list[tuple[str, str]]]:
        with self._lock:
            lines, self._lines, self._news = self._lines, [], False
            return self._state, lines

    def _look_for_stop(self) -> None:
        for request in self.inbox.list_waiting(self.activity_id, self.run_id):
            if request.kind == "stop":
                self.inbox.take(request, self.run_id)
                self.stopped = STOPPED
                self.on_stop(STOPPED)
                self.say(STOPPED)
                self.inbox.answer(request, "done", STOP_ANSWERS[self._begun_as[0]])

    def _describe_ending(self, error: BaseException | None) -> str:
        if error is None:
            return self._ending or "ended"
        if isinstance(error, KeyboardInterrupt | Interrupted):
            return " ".join(str(error).split()) or "interrupted: the same command goes on from there"
        name = "" if isinstance(error, WarpsmithError) else f"{type(error).__name__}: "
        return f"failed: {name}{' '.join(str(error).split())}"[:600]


def _name_ending(error: BaseException | None) -> str:
    if error is None:
        return "ended"
    return "interrupted" if isinstance(error, KeyboardInterrupt | Interrupted) else "failed"


def tell_best(best: Attempt) -> dict[str, Any]:
    """Return the fields of the state that tell the best so far."""
    timing = best.result.timing
    return {
        "best": best.result.speedup, "best_id": best.candidate.id, "best_label": label(best.candidate),
        "best_confirmed": best.result.confirmed, "best_limit_share": timing.limit_share if timing is not None else 0.0,
    }  # fmt: skip


class LiveObserver:
    """Hears of the run for two, and passes on what trackers warn of, in the thread of the run."""

    def __init__(self, live: LiveActivity, observer: Observer) -> None:
        self._live, self._observer = live, observer
        self.evaluated = self._pass_on_count

    def stage(self, text: str) -> None:
        self._pass_on_warnings()
        self._live.change(stage=text)
        self._live.say(text)
        self._observer.stage(text)

    def _pass_on_count(
        self, done: int, total: int | None, status: str, best_text: str, seconds_left: float | None
    ) -> None:
        """Pass it on alone: the run tells the archive itself, with more."""
        self._pass_on_warnings()
        self._observer.evaluated(done, total, status, best_text, seconds_left)

    def note(self, text: str) -> None:
        self._live.say(text)
        self._observer.note(text)

    def finish(self, summary: RunSummary) -> None:
        self._pass_on_warnings()
        self._live.finish(closing_line(summary))
        self._live.say(closing_line(summary))
        self._observer.finish(summary)

    def _pass_on_warnings(self) -> None:
        for line in self._live.tracking.take_warnings():
            self.note(line)
