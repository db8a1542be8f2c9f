"""The suite's end of a lane: it starts the process (`lane.py`), has it play runs and passes on what it tells.

In: settings, a run. Out: the run's summary, and events on the way. One thread uses a client; any other may only signal its process.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ArchiveError, Interrupted, ModelError, WarpsmithError, make_error
from ..judge.device.visible_gpus import VARIABLE
from ..processes.worker import Worker, WorkerDied, WorkerFailed, WorkerTimeout
from ..records import RunSummary
from .suite import PlannedRun

MODULE = "warpsmith.pipeline.lane"
START_SECONDS = 120.0
SILENCE_SECONDS = 4 * 3600.0  # after which a lane that says nothing counts as lost
# Errors cross the process boundary by their names. These end a suite.
SUITE_ENDING: Mapping[str, type[WarpsmithError]] = {
    kind.__name__: kind for kind in (ArchiveError, ModelError, Interrupted)
}


@dataclass(frozen=True)
class LaneSettings:
    """How lanes are started. `play`: "module:function" of what plays a run (`lane.LanePlay`); `settings`: its settings as JSON."""

    count: int
    play: str
    settings: Mapping[str, Any]
    logs: Path
    gpus: Sequence[str] = ()  # values for CUDA_VISIBLE_DEVICES; none: it stays as it is


@dataclass(frozen=True)
class Line:
    """A lane has a line of progress."""

    text: str


@dataclass(frozen=True)
class Closing:
    """A run says how it ended."""

    summary: RunSummary


class LaneClient:
    def __init__(
        self, number: int, settings: LaneSettings, target: str, folder: Path, processors: Sequence[int],
        name: str = "",
    ) -> None:  # fmt: skip
        """`number`: from 0; `folder`: for what its process writes, not made yet; `name`: what its lines begin with."""
        self._number, self._settings, self._target = number, settings, target
        self._name = name or f"lane {number + 1}"
        self._folder, self._processors = folder, list(processors)
        self._worker: Worker | None = None
        self._signalling = threading.Lock()
        self._signalled = False

    def play(self, run: PlannedRun, tell: Callable[[Line | Closing], None]) -> RunSummary:
        """Play a run, in a new process where there is none.

        Raises ArchiveError, ModelError, Interrupted, with the setting `raises` every WarpsmithError; WorkerDied, WorkerTimeout and JudgeError where the process is lost or cannot start.
        """
        try:
            worker = self._start()
            worker.send("play", path=str(run.path), seed=run.seed)
            while True:
                message = worker.receive(SILENCE_SECONDS)
                if "summary" in message:
                    return RunSummary.model_validate_json(message["summary"])
                if "closing" in message:
                    tell(Closing(RunSummary.model_validate_json(message["closing"])))
                else:
                    tell(self.make_line(message["line"]))
        except WorkerFailed as error:
            raise make_error(error.kind, str(error), unknown=WarpsmithError) from error
        except (WorkerDied, WorkerTimeout) as error:
            self.close()
            raise type(error)(f"{error}{self._keep_log()}") from error

    def make_line(self, text: str) -> Line:
        return Line(f"{self._name}: {text}")

    @property
    def process_id(self) -> int:
        """The id of its process; 0 where there is none."""
        with self._signalling:
            return self._worker.process.pid if self._worker is not None else 0

    def _start(self) -> Worker:
        if self._worker is None:
            gpus, play = self._settings.gpus, self._settings.play
            env = {VARIABLE: gpus[self._number % len(gpus)]} if gpus else {}
            worker = Worker(MODULE, self._folder, env=env, preload=(play.partition(":")[0],))
            with self._signalling:
                self._worker = worker
            worker.call(
                "start", START_SECONDS, play=play, settings={**self._settings.settings, "lane": self._number + 1}, target=self._target,
                folder=os.getcwd(), logs=str(self._settings.logs), processors=self._processors,
            )  # fmt: skip
        return self._worker

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal, if there is one."""
        with self._signalling, suppress(OSError):
            self._signalled = True
            if self._worker is not None:
                os.kill(self._worker.process.pid, number)

    def close(self) -> None:
        """Kill the process and all that it started."""
        with self._signalling:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    def _keep_log(self) -> str:
        """Keep what a lost process wrote; returns where it is, for the reason. One that was told to end has nothing to explain."""
        log, logs = self._folder / "log.txt", self._settings.logs
        file = logs / f"lane-{time.strftime('%Y%m%d-%H%M%S')}-{self._number + 1}.log"
        try:
            if self._signalled or not log.stat().st_size:
                return ""
            logs.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(log, file)
        except OSError:
            return ""
        return f"; details in {file}"
