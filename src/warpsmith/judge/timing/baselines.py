"""The baselines: eager, torch.compile and torch.compile max-autotune, on CUDA also CUDA graphs and
channels-last, each in a clean process that stays alive to be timed.

In: a task and a values file. Out: a `TimedProcess` for each baseline that works, and the reason for each that
does not: failure is a value here, for many modules do not compile. All start at once, since importing torch
and compiling take far longer than timing.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ...ahead import COMPILER
from ...config import CACHE_REMEDY
from ...errors import JudgeError, WarpsmithError
from ...processes.buffers import Scratch
from ...processes.worker import Worker
from ...records import BaselineTiming, Limit, Task, content_hash
from ...tasks.client import worker_env
from ..device.patience import WAITING, Patience, describe_no_memory, is_out_of_memory
from .timed_process import TimedProcess, environment

MODULE = "warpsmith.judge.timing.bench_worker"
EAGER = "eager"
NAMES = (EAGER, "compile", "compile-max-autotune")
CUDA_NAMES = (*NAMES, "compile-reduce-overhead", "cuda-graph")
CHANNELS_LAST = "channels-last"  # eager, in the layout that the tensor cores' convolutions want
LOAD_SECONDS = {"compile": 240.0, "compile-reduce-overhead": 240.0, "compile-max-autotune": 360.0}
LOAD_MOST = 120.0  # of the others
FAR_FROM_FLOOR = 0.2  # share of the speed-of-light limit below which a baseline is flagged
VERY_FAR = 20.0  # times its floor beyond which eager is flagged though another baseline is faster
OVERHEAD_SECONDS = (
    20e-6  # tasks whose floor is below this are bound by call overhead, and far from it by nature
)


def baseline_names(task: Task, device: str) -> tuple[str, ...]:
    """The baselines of a task on a device, "cpu" or "cuda"."""
    if device == "cpu":
        return NAMES
    graph = task.graph
    images = any(len(i.spec.shape) == 4 for i in graph.inputs if i.role == "input")
    convolves = any("conv" in node.op for node in graph.nodes)
    return (*CUDA_NAMES, CHANNELS_LAST) if images and convolves else CUDA_NAMES


def name_compiler(compiler: str | None) -> dict[str, str]:
    """Variables that make inductor take this compiler; none where it would anyway, since they ask for a fork server of their own."""
    usual = shutil.which(os.environ.get("CXX", "g++"))
    return {} if compiler is None or compiler == usual else {"CXX": compiler}


class Baselines:
    """Processes of the baselines. `start` launches them, `ready` waits; `alive` and `failures` say what came
    of each.
    """

    def __init__(
        self,
        task: Task,
        task_file: Path,
        *,
        scratch: Scratch,
        workdir: Path,
        cache_dir: Path,
        threads: int,
        flush_bytes: int,
        device: str = "cpu",
        progress: Callable[[str], None] = lambda text: None,
        compiler: str | None = None,
    ) -> None:
        self.device, self._progress, self._compiler = device, progress, compiler
        self.task, self.task_file, self.scratch, self.workdir = task, task_file, scratch, workdir
        self.cache_dir, self.threads, self.flush_bytes = cache_dir, threads, flush_bytes
        self.alive: dict[str, TimedProcess] = {}
        self.failures: dict[str, str] = {}
        self.compile_seconds: dict[str, float] = {}
        self._pending: dict[str, tuple[Worker, Path, float]] = {}
        self._values = Path()
        self._paused = False

    def start(self, names: Sequence[str], values: Path) -> None:
        """Launch the processes and let them load and compile; returns at once. "eager#2" is a second eager
        process.
        """
        self._values = values
        for name in names:
            self._launch(name)

    def _launch(self, name: str) -> None:
        folder = self.scratch.new(f"bench-{name}")
        folder.mkdir()
        # A folder for each task: its code may write there, so it must not be able to spoil another's.
        cache = self.cache_dir / f"{name}-{content_hash([self.task.id, self.threads])}"
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JudgeError(
                f"cannot make the cache's folder {cache}: {error.strerror}; {CACHE_REMEDY}"
            ) from error
        inductor = {"TORCHINDUCTOR_CACHE_DIR": str(cache), **name_compiler(self._compiler)}
        if self.device == "cuda":
            inductor |= {"TRITON_CACHE_DIR": str(cache / "triton"), "CUDA_CACHE_PATH": str(cache / "nv")}
        variables = worker_env(self.task.source) | (inductor if name != "eager" else {})
        env = environment(self.threads, **variables)
        worker = Worker(
            MODULE,
            self.workdir / folder.name,
            env=env,
            preload=COMPILER if name in LOAD_SECONDS and self.device == "cpu" else (),
        )
        self._pending[name] = (worker, folder, time.monotonic())
        worker.send(
            "load", task_file=str(self.task_file), variant=self.task.main.name,
            kind=name.partition("#")[0], values=str(self._values), writable=[str(folder), str(cache)],
            threads=self.threads, flush_bytes=self.flush_bytes, device=self.device,
        )  # fmt: skip
        if self._paused:
            worker.pause()

    def ready(self) -> None:
        """Wait for all that were started. One that finds no memory on the GPU is started again while patience lasts, for other
        runs may have it. A baseline that fails is closed and its reason kept.
        """
        patience = Patience()
        while short := self._receive_all():
            if patience.over:
                self.failures |= {n: describe_no_memory(e, patience.waited) for n, e in short.items()}
                return
            self._progress(WAITING)
            self.rest()
            patience.wait()
            for name in short:
                self._launch(name)

    def _receive_all(self) -> dict[str, WarpsmithError]:
        """Take the answers of all that load, and return those that found no memory on the GPU, with their errors."""
        short: dict[str, WarpsmithError] = {}
        for name, (worker, folder, started) in list(self._pending.items()):
            try:
                limit_seconds = LOAD_SECONDS.get(name.partition("#")[0], LOAD_MOST)
                remaining = limit_seconds - (time.monotonic() - started)
                answer = worker.receive(max(1.0, remaining))
                self.compile_seconds[name] = float(answer["seconds"])
                self.alive[name] = process = TimedProcess(name, worker, folder)
                process.isolation = str(answer.get("isolation", ""))
            except WarpsmithError as error:
                worker.close()
                if self.device == "cuda" and is_out_of_memory(error):
                    short[name] = error
                else:
                    self.failures[name] = str(error)
            self._pending.pop(name)
        return short

    @property
    def processes(self) -> tuple[Worker, ...]:
        """The processes that run now."""
        loading = (worker for worker, _, _ in list(self._pending.values()))
        return (*loading, *(process.worker for process in list(self.alive.values())))

    def pause(self) -> None:
        """Stop those that load and compile, until `resume`."""
        self._paused = True
        for worker, _, _ in list(self._pending.values()):
            worker.pause()

    def resume(self) -> None:
        self._paused = False
        for worker, _, _ in list(self._pending.values()):
            worker.resume()

    def rest(self) -> None:
        """Have those that work hold as little memory as they can until they are prepared again."""
        for process in self.alive.values():
            with suppress(WarpsmithError):  # whoever cannot even rest is told of when it is asked next
                process.rest()

    def add(self, process: TimedProcess) -> None:
        """One more that works, under its own name."""
        self.alive[process.name] = process

    def drop(self, name: str) -> None:
        if (process := self.alive.pop(name, None)) is not None:
            process.close()

    def record_failure(self, name: str, reason: str) -> None:
        """Count a baseline no more that failed while it was timed."""
        self.drop(name)
        self.failures[name] = reason

    def close(self) -> None:
        for worker, _, _ in self._pending.values():
            worker.close()
        for process in self.alive.values():
            process.close()
        self._pending.clear()
        self.alive.clear()


def audit(timings: Mapping[str, BaselineTiming], limit: Limit) -> tuple[str, ...]:
    """One line for each reason to read a large speedup with care: a best baseline, or eager, far from its
    floor, or a baseline that does not work.
    """
    working = [t for t in timings.values() if t.ok]
    if not working:
        return ("no baseline works",)
    best = min(working, key=lambda t: t.median_us)
    share = limit.seconds / (best.median_us * 1e-6)
    notes = [f"baseline {t.name} failed: {t.reason}" for t in timings.values() if not t.ok]
    if share < FAR_FROM_FLOOR and limit.seconds > OVERHEAD_SECONDS:
        notes.append(
            f"the best baseline, {best.name}, reaches {share:.0%} of the {limit.bound} limit: "
            "a large speedup says more about the baseline than about the kernel"
        )
    eager = timings.get("eager")
    if eager is not None and eager.ok and best is not eager and limit.seconds > OVERHEAD_SECONDS:
        times = eager.median_us * 1e-6 / limit.seconds
        if times > VERY_FAR:
            notes.append(
                f"eager takes {times:.0f} times its floor: a speedup over eager alone proves little here"
            )
    if limit.seconds <= OVERHEAD_SECONDS:
        notes.append("the task is bound by call overhead: its speedup says little about larger sizes")
    return tuple(notes)
