"""`NodeWorker` is the actor that plays runs on a node: a class that Ray starts in a process of its own.

In: one job at a time, a run to play or a winner to judge again. Out: a stream of events as JSON text. What plays is a lane
(`pipeline.lane`), a process beside the actor, so that a crash in a run does not end the actor. With an archive of its own the actor
sends snapshots of the run while it goes on, and the whole run at its end.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, Queue

from ..archive.entries import RunRecord
from ..archive.owner import this_host
from ..archive.store import Archive
from ..bundles.journal import ROWS
from ..bundles.manifest import make_mac, read_key
from ..errors import JudgeError, WarpsmithError
from ..judge.device.visible_gpus import list_visible_gpus
from ..machine import affinity, describe, split_cores
from ..pipeline.lane_client import Closing, LaneClient, LaneSettings, Line
from ..pipeline.suite import PlannedRun
from ..processes.buffers import Scratch
from ..processes.worker import WorkerDied, WorkerTimeout
from ..records import Environment
from .confirming import BUNDLE, RESULTS
from .messages import Event, Hello, PlayJob, Setup
from .shipping import PURPOSE, load_known, place_task, write_export

OMP = "OMP_NUM_THREADS"
Tell = Callable[[Event], None]


class NodeWorker:
    def __init__(self, setup: str) -> None:
        self.setup = Setup.model_validate_json(setup)
        with suppress(OSError):  # no shared file system: paths of tasks are sent as text, too
            os.chdir(self.setup.folder)
        os.environ.pop(OMP, None)  # Ray sets it to an actor's CPUs
        if self.setup.omp_threads:
            os.environ[OMP] = self.setup.omp_threads
        os.sched_setaffinity(0, split_cores(self.setup.shares)[self.setup.share])
        self._scratch, self._job = Scratch(), PlayJob(name="", path="", text="", seed=None)
        self._thread = ThreadPoolExecutor(1)  # whoever starts a process outlives it
        self._archive: Archive | None = None
        self._client: LaneClient | None = None
        self._client_plays = self._last_snapshot = ""

    def hello(self) -> str:
        return Hello(host=this_host(), environment=self.describe()).model_dump_json()

    def describe(self) -> Environment:
        device = "cpu" if self.setup.target == "cpu" else "cuda"
        return describe(self.setup.compiler or None, device)

    def clock(self) -> float:
        """Seconds since 1970 by this machine's clock."""
        return time.time()

    def play(self, job: str) -> Iterator[str]:
        """Play a run; the events on the way, and its summary, with the run itself where this worker has an archive."""
        yield from self._stream(partial(self._play, PlayJob.model_validate_json(job)), self.setup.sends)

    def confirm(self, name: str, bundle: bytes) -> Iterator[str]:
        """Judge the candidates of a bundle; the events on the way, and the rows of its results."""
        yield from self._stream(partial(self._confirm, name, bundle), False)

    def stop(self) -> None:
        """Interrupt what is being played."""
        if self._client is not None:
            self._client.signal(signal.SIGTERM)

    def close(self) -> None:
        """End what is being played, and leave nothing behind."""
        if self._client is not None:
            self._client.close()
        self._scratch.close()

    def _stream(self, work: Callable[[Tell], Event], snapshots: bool) -> Iterator[str]:
        events: Queue[Event] = Queue()
        self._thread.submit(self._work, work, events.put)
        period_s, last_snapshot = self.setup.snapshot_s if snapshots else None, time.monotonic()
        while True:
            with suppress(Empty):
                event = events.get(timeout=period_s)
                if event.kind in ("error", "lost") and snapshots:
                    yield from self._take_snapshots()
                yield event.model_dump_json()
                if event.is_last:
                    return
            if period_s is not None and time.monotonic() - last_snapshot >= period_s:
                yield from self._take_snapshots()
                last_snapshot = time.monotonic()

    def _take_snapshots(self) -> Iterator[str]:
        """Yield the run that is under way, if it has changed since its last snapshot."""
        with suppress(WarpsmithError):  # the run goes on without
            unfinished = [r for r in self.archive.runs() if not r.finished and self._is_of_job(r)]
            for run in unfinished[:1]:
                text = write_export(self.archive, run.run_id)
                if text != self._last_snapshot:
                    self._last_snapshot = text
                    yield Event(kind="snapshot", text=text, mac=self._seal(text)).model_dump_json()

    def _is_of_job(self, run: RunRecord) -> bool:
        same_seed = self._job.seed is None or run.seed == self._job.seed
        return same_seed and run.task_name == Path(self._job.path).stem

    def _work(self, work: Callable[[Tell], Event], tell: Tell) -> None:
        try:
            last = work(tell)
        except (WorkerDied, WorkerTimeout, JudgeError) as error:
            last = Event(kind="lost", text=str(error))
        except Exception as error:  # noqa: BLE001 - the thread's boundary: the driver raises it
            last = Event(kind="error", error=type(error).__name__, text=" ".join(str(error).split()))
        tell(last)

    def _play(self, job: PlayJob, tell: Tell) -> Event:
        self._job = job
        settings = {**json.loads(self.setup.settings), "node": self.setup.name}
        if self.setup.sends:
            load_known(self.archive, job.history)
            settings["config"] = {**settings.get("config", {}), "archive": str(self.archive.path)}
        path = place_task(job, Path(self.setup.cache))
        run = PlannedRun(0, job.name, job.name, path, job.seed, self.setup.target)
        summary = self._lane(self.setup.play, settings).play(run, self._pass_on(tell))
        text = ""
        if self.setup.sends and summary.run_id:
            text = write_export(self.archive, summary.run_id)
        return Event(kind="played", summary=summary, text=text, mac=self._seal(text), task=str(path))

    def _confirm(self, name: str, bundle: bytes, tell: Tell) -> Event:
        folder = self._scratch.new("confirm")
        folder.mkdir()
        (folder / BUNDLE).write_bytes(bundle)
        settings = {**json.loads(self.setup.settings), "key_file": self.setup.key_file}
        run = PlannedRun(0, name, name, folder, None, self.setup.target)
        summary = self._lane(self.setup.confirm, settings).play(run, self._pass_on(tell))
        rows = folder / RESULTS / ROWS
        if not rows.exists():
            raise JudgeError(summary.reason or "it judged nothing")
        return Event(kind="judged", text=rows.read_text(), summary=summary)

    def _pass_on(self, tell: Tell) -> Callable[[Line | Closing], None]:
        """Make what a lane tells an event; before its first line the driver learns which process writes."""
        owners: list[str] = []

        def pass_on(told: Line | Closing) -> None:
            if not owners:
                owners.append(f"{this_host()}:{self._client.process_id if self._client else 0}:")
                tell(Event(kind="owner", text=owners[0]))
            if isinstance(told, Line):  # how a run ended is said when it counts
                tell(Event(kind="line", text=told.text))

        return pass_on

    def _lane(self, play: str, settings: dict[str, object]) -> LaneClient:
        """The lane that plays with this function: it stays from one job to the next of its kind."""
        if self._client is None or self._client_plays != play:
            if self._client is not None:
                self._client.close()
            setup, logs = self.setup, Path(self.setup.logs)
            gpus = () if setup.target == "cpu" else tuple(list_visible_gpus()[:1])
            lane = LaneSettings(1, play, settings, logs, gpus)
            folder = self._scratch.new("lane")
            self._client = LaneClient(setup.number, lane, setup.target, folder, affinity(), setup.name)
            self._client_plays = play
        return self._client

    @property
    def archive(self) -> Archive:
        if self._archive is None:
            self._archive = Archive(self._scratch.path / "archive.db")
        return self._archive

    def _seal(self, text: str) -> str:
        key = read_key(Path(self.setup.key_file)) if self.setup.key_file else None
        return make_mac(key, PURPOSE, text)
