"""A suite in lanes: several processes take its runs from one queue, each plays one at a time.

In: a suite, the name of the function that plays a run, GPUs. Out: the same summaries in the same order as from one process. Lane n has
GPU n modulo their number; lanes on one GPU take turns by its lock. Each has as many of the processors. A lane that ends within a run
is replaced, and the run goes to the end of the queue, once: what it had judged is in the archive. Whatever a lane
tells is handled in the caller's thread, one event after the other.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Queue

from ..errors import Interrupted, JudgeError
from ..machine import split_cores
from ..processes.buffers import Scratch
from ..processes.worker import WorkerDied, WorkerTimeout
from ..progress import Observer, counted
from ..records import RunSummary
from .lane_client import Closing, LaneClient, LaneSettings, Line
from .run_queue import RunQueue
from .suite import Finished, PlannedRun, Suite, make_failed

GRACE_SECONDS = 15.0  # for runs to end in good order when the suite ends early


@dataclass(frozen=True)
class Played:
    """A run is over."""

    run: PlannedRun
    summary: RunSummary


@dataclass(frozen=True)
class Ended:
    """A lane takes no more runs; `error`: what must end the suite."""

    error: Exception | None = None


Event = Line | Closing | Played | Ended
Tell = Callable[[Event], None]


def play_in_lanes(
    suite: Suite, lanes: LaneSettings, observer: Observer, finished: Finished | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> list[RunSummary]:  # fmt: skip
    """Play every run; summaries are in the order of the suite, `finished` hears of each as it comes. After a summary with a `fault`, or once
    it is stopped, no other run begins; those under way end.

    Raises ArchiveError, ModelError, Interrupted.
    """
    runs = len(suite.plan())
    summaries: dict[int, RunSummary] = {}
    with open_lanes(suite, lanes, is_stopped) as events:
        try:
            for event in events:
                match event:
                    case Line(text):
                        observer.note(text)
                    case Closing(summary):
                        observer.finish(summary)
                    case Played(run, summary):
                        summaries[run.index] = summary.model_copy(update={"task": run.name})
                        if finished is not None:
                            finished(summaries[run.index], runs - len(summaries))
                        if summary.fault:
                            observer.note(f"the suite stops here: {summary.fault}")
        except KeyboardInterrupt:
            observer.note("interrupted: the lanes end")
            raise Interrupted(
                f"interrupted: {len(summaries)} of {runs} runs are done; the same command goes on from there"
            ) from None
    return [summaries[index] for index in sorted(summaries)]


@contextmanager
def open_lanes(
    suite: Suite, lanes: LaneSettings, is_stopped: Callable[[], bool] = lambda: False
) -> Iterator[Iterator[Event]]:
    """Start the lanes, give what they tell, and end them: a run that is under way then is interrupted."""
    plan = suite.plan()
    queue, events = RunQueue(plan, is_stopped), Queue[Event]()
    with Scratch() as scratch:
        clients = [
            LaneClient(number, lanes, suite.target, scratch.new("lane"), processors)
            for number, processors in enumerate(split_cores(lanes.count)[: len(plan)])
        ]
        threads = [
            threading.Thread(target=run_lane, args=(c, queue, events.put), daemon=True) for c in clients
        ]
        try:
            for thread in threads:
                thread.start()
            yield read_events(events, len(threads))
        finally:
            queue.close()
            end_lanes(clients, threads)


def read_events(events: Queue[Event], lanes: int) -> Iterator[Event]:
    """Give the events until so many lanes have ended. Raises what must end the suite."""
    while lanes:
        event = events.get()
        if isinstance(event, Ended):
            if event.error is not None:
                raise event.error
            lanes -= 1
        yield event


def run_lane(client: LaneClient, queue: RunQueue, tell: Tell) -> None:
    """Play runs until there is none left; an error that must end the suite ends the lane."""
    ended = Ended()
    try:
        while (run := queue.take()) is not None:
            tell(client.make_line(run.title))
            summary = play_once(client, run, queue, tell)
            if summary is not None:
                if summary.fault:
                    queue.close()
                tell(Played(run, summary))
    except Exception as error:  # noqa: BLE001 - the thread's boundary: the caller's thread raises it
        ended = Ended(error)
    finally:
        client.close()
        tell(ended)


def play_once(client: LaneClient, run: PlannedRun, queue: RunQueue, tell: Tell) -> RunSummary | None:
    """Play a run; None where its lane was lost and another is to take it."""
    try:
        return client.play(run, tell)
    except (WorkerDied, WorkerTimeout, JudgeError) as error:
        if queue.put_back(run):
            tell(client.make_line(f"{run.name} is put back: {error}"))
            return None
        lost = counted(queue.count_attempts(run), "lane")
        failed = make_failed(run.path.stem, run.seed, run.target, f"{lost} ended while playing it: {error}")
        tell(Closing(failed))
        return failed


def end_lanes(clients: list[LaneClient], threads: list[threading.Thread]) -> None:
    """Interrupt what is still played, and kill what does not end by itself."""
    for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, GRACE_SECONDS)):
        deadline = time.monotonic() + seconds
        for client in clients:
            client.signal(number)
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
