"""A judge's session on one task: trusted processes, values, seeds, baselines, admission and the
speed-of-light floor.

In: a task and a seed. Out: a `JudgeSession`, which `Judge` builds on. The baselines compile while the trusted side
makes inputs and admits the task; each of them must then agree with the exported graph before any candidate is
measured against it. Every seed comes from the one given; no candidate process ever sees one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Self

import numpy as np
import psutil

from ..errors import JudgeError, TaskError
from ..machine import describe
from ..processes.buffers import Scratch
from ..processes.waiting import allow_open_files
from ..processes.worker import WorkerDied, WorkerFailed, WorkerTimeout
from ..records import Admission, BaselineTiming, Candidate, Environment, Limit, Task
from ..targets.target import Target, unit_device
from .admission.admission import admit
from .admission.module_agreement import check_module, quarantine
from .correctness.evidence import CALL_SECONDS, Case, Evidence
from .correctness.input_families import OWN
from .correctness.plan import ADMISSION, Plan
from .correctness.verify import FEW_DRAWS, Limits, Verifier
from .correctness.workers import Workers
from .device.device_lock import DeviceLock, lock_file
from .device.memory import check_memory, count_kept_files
from .layout import output_names
from .roofline.limits import limit
from .roofline.peaks import Peaks, find_usable_peaks, measure_peaks
from .timing.baselines import EAGER, NAMES, audit, baseline_names
from .timing.bench import Bench
from .timing.interleaved_rounds import TimedSample
from .timing.rewritten_reference import REWRITTEN, rewritten_graph

BASELINES = NAMES
MIN_PATIENCE_S = 5.0  # that any call of a unit may take, on a busy machine, too
SAMPLED = 1 << 18  # elements of each output of a timed run that are looked at, but in a confirmation
EVIDENCE_SHARE = 8  # of the available memory, one part in so many holds expected values


class JudgeSession:
    """A context manager. `seed` decides every random choice; `quick` keeps verification to the main shapes
    and few families.
    """

    def __init__(
        self, task: Task, target: Target, *, scratch: Scratch, workdir: Path, seed: int,
        progress: Callable[[str], None] = lambda text: None, quick: bool = False,
        baselines: Sequence[str] = BASELINES, peaks_cache: Path | None = None, profile: bool = True,
        memory_gb: float | None = None, timed_on: Collection[int] | None = None, lock: Path | None = None,
    ) -> None:  # fmt: skip
        """`profile`: whether each part of the reference is timed alone, for who proposes candidates. `memory_gb`: GiB of
        host memory that this judge may take; what is free when None. `timed_on`: processors for what is timed.
        `lock`: the file by which judges of this device take turns; the GPU's own, and none for a CPU, when None.
        """
        self.task, self.target, self.scratch, self.workdir, self.seed = task, target, scratch, workdir, seed
        self.progress, self.quick, self._profiled = progress, quick, profile
        self.moved: Callable[[Candidate, str], None] = lambda candidate, stage: (
            None
        )  # hears where each candidate is
        self.device = unit_device(target)
        self.device_lock = DeviceLock(lock or lock_file(self.device), progress)
        # The ordinary three stand for all that the device has.
        ordinary = tuple(baselines) == BASELINES
        self._names = baseline_names(task, self.device) if ordinary else tuple(baselines)
        self._peaks_cache = peaks_cache or workdir
        self._memory_gb, self._timed_on = memory_gb, timed_on
        self._random = np.random.default_rng(seed)
        self._stack = ExitStack()
        self.seconds: dict[str, float] = {}
        self.baselines: dict[str, BaselineTiming] = {}
        self.node_us: dict[str, float] = {}  # node name → median microseconds as ATen, alone
        self.disagreeing: dict[str, str] = {}  # baselines whose outputs miss the budget, and how
        self._compiler: str | None = getattr(
            target, "compiler", None
        )  # everything is built with the target's
        self.environment: Environment = describe(self._compiler, self.device)
        self.admission: Admission
        self.peaks: Peaks
        self.limit: Limit

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every process. Safe to call twice."""
        self._stack.close()

    def open(self) -> None:
        """Raises TaskError when the task does not fit or does not run, JudgeError when a trusted process is
        lost.
        """
        with self._guard_trusted("the judge could not start"):
            self._prepare()
            self._time_baselines()
            self._profile_reference()

    def _prepare(self) -> None:
        """Do what needs no baseline: the limit, inputs, the trusted workers. The baselines compile from now on."""
        allow_open_files()  # each mapped file holds one, and the truth about a large network has thousands
        check_memory(self.task, self._room(), self.device)
        self.workdir.mkdir(parents=True, exist_ok=True)
        self._measure_limit()  # first: while the baselines compile the machine is busy
        self._start_bench()

    def _time_baselines(self) -> None:
        with self._stage("admission", "checking that wrong answers fail on this task"):
            self.admission = admit(self.task, self.evidence, ADMISSION, self._draw())
        with self._stage("baselines", "compiling and timing the baselines"):
            timings = self.bench.pool.start(self._names, fresh_values=self._next_values)
            self.progress("checking what the baselines returned")
            self._check_baselines()
            self.baselines = {n: t.restate(self.limit) for n, t in timings.items()}
            self.verifier.limits = replace(self.verifier.limits, timeout=self._patience())
            for note in audit(self.baselines, self.limit):
                self.progress(note)

    def _profile_reference(self) -> None:
        if self._profiled:
            with self._stage("profile", "timing each part of the reference"):
                self._profile()

    def _measure_limit(self, refresh: bool = False) -> None:
        with self._stage("limit", "measuring what this machine can do"):
            cache, threads = self._peaks_cache, self.environment.threads
            peaks = None if refresh else find_usable_peaks(cache, threads, device=self.device)
            if peaks is None:
                with self.device_lock.hold_exclusive():
                    peaks = measure_peaks(
                        cache, threads, compiler=self._compiler, refresh=refresh, device=self.device,
                        progress=self.progress,
                    )  # fmt: skip
            self.peaks, self.limit = peaks, limit(self.task.graph, peaks, cold=True)
            self.baselines = {name: timing.restate(self.limit) for name, timing in self.baselines.items()}

    def remeasure_limit(self) -> Limit:
        """Measure the peaks once more, for whoever would stop because of the limit. Raises ToolchainError, JudgeError."""
        self._measure_limit(refresh=True)
        return self.limit

    def _profile(self) -> None:
        main = str(self.evidence.values(self._own))
        with self.device_lock.hold_exclusive():
            answer = self.evidence.workers.call(
                "profile_nodes", CALL_SECONDS, variant=self._own.variant, values=main
            )
        self.node_us = {str(k): float(v) for k, v in answer["microseconds"].items()}

    def _start_bench(self) -> None:
        """Inputs first; then the baselines compile while the trusted side goes on."""
        with self._stage("inputs", "making inputs"):
            self._start_workers()
            self._fresh_values()
            self.bench = Bench(
                self.task, scratch=self.scratch, workdir=self.workdir / "bench",
                threads=self.environment.threads, progress=self.progress,
                cache_dir=self._peaks_cache / "inductor", device=self.device, device_lock=self.device_lock,
                timed_on=self._timed_on, sampled=self._sampled_elements, compiler=self._compiler,
            )  # fmt: skip
            self._stack.callback(self.bench.close)
            self.bench.pool.begin(self._names, fresh_values=self._next_values)

    def _start_workers(self) -> None:
        workers = Workers(self.task, self.scratch, self.environment.threads, self.device, self.device_lock)
        self._workers = self._stack.enter_context(workers)
        capacity = self._room() // EVIDENCE_SHARE
        self._own = Case(self.task.main.name, OWN, self._draw())
        self.evidence = Evidence(self.task, self._workers, self.scratch, self._own.seed, capacity)
        self.plan = Plan(self.task, self._draw(), self.quick)
        memory = max(1 << 30, self._room() // 4)
        self.verifier = Verifier(
            self.task,
            self.evidence,
            self.scratch,
            Limits(threads=self.environment.threads, memory_bytes=memory, compiler=self._compiler),
            self.device_lock,
        )

    def _room(self) -> int:
        """Bytes of host memory that are free for this judge."""
        free = int(psutil.virtual_memory().available)
        return free if self._memory_gb is None else min(free, int(self._memory_gb * 2**30))

    def _check_baselines(self) -> None:
        """Each baseline must agree with the exported graph. Raises TaskError when the user's own module does
        not.
        """
        for name, sample in self.bench.pool.samples.items():
            if name == EAGER:
                self._check_module(sample)
                continue
            check = self.verifier.check_whole(self._own.variant, sample, self._draw(), self._draws(False))
            sample.remove()
            if not check.ok:
                self.progress(f"note: {name} gives other values than eager ({check.detail})")
                self.disagreeing[name] = check.detail

    def _check_module(self, sample: TimedSample) -> None:
        process = self.bench.pool.process(EAGER)
        with self.device_lock.run_in_background(process.pause, process.resume):
            agreement = check_module(
                self.verifier, process, sample, self._own.variant, self._draw(), self._draws(False)
            )
        self.admission = quarantine(self.admission, agreement.doubt)
        if agreement.note:
            self.progress(f"note: {agreement.note}")
            self.disagreeing[EAGER] = agreement.note

    def _draws(self, confirm: bool) -> int:
        """Count the draws of noise with which a timed run's outputs are checked: a large output has like elements enough to pool one over."""
        return FEW_DRAWS if confirm or self._sampled_elements is None else 1

    @property
    def _sampled_elements(self) -> int | None:
        """Elements of each output of a timed run that are looked at, but in a confirmation; None: all."""
        graph = self.task.graph
        return SAMPLED if all(graph.specs[name].numel >= SAMPLED for name in output_names(graph)) else None

    def _time_rewritten(self, candidate: Candidate) -> None:
        """Add one more baseline until the pool drops it, where the candidate's algebra can be done in ATen, too.
        One that is wrong is dropped at once, with a note.
        """
        try:
            graph = rewritten_graph(self.task.graph, candidate.units)
        except TaskError as error:
            self.bench.pool.drop_rewritten(str(error))
        else:
            if graph is None:
                return
            self.bench.pool.add_rewritten(graph, self._next_values)
        sample = self.bench.pool.samples.get(REWRITTEN)
        if sample is not None:
            check = self.verifier.check_whole(self._own.variant, sample, self._draw())
            sample.remove()
            if not check.ok:
                self.bench.pool.drop_rewritten(f"it gives other values than eager ({check.detail})")
        timing = self.bench.pool.timings[REWRITTEN]
        if not timing.ok:
            self.progress(f"note: no rewritten reference: {timing.reason}")

    def _patience(self) -> float:
        """Seconds after which a unit hangs: a thousand times as long as the whole module takes, within limits."""
        slowest = max(t.median_us for t in self.baselines.values() if t.ok) * 1e-6
        return min(Limits.timeout, max(MIN_PATIENCE_S, 1000 * slowest))

    def _fresh_values(self, count: int = 2) -> None:
        """New own inputs for the main shapes; those of the round before are dropped."""
        for case in getattr(self, "_fresh", []):
            self.evidence.forget(case)
        if self.device == "cuda":
            count = min(count, count_kept_files(self.task.graph))
        self._fresh = [Case(self.task.main.name, OWN, self._draw()) for _ in range(count)]
        for case in self._fresh:
            self.evidence.values(case)
        self._turn = cycle(self._fresh)

    def _next_values(self) -> Path:
        return self.evidence.values(next(self._turn))

    def _draw(self) -> int:
        return int(self._random.integers(1 << 62))

    def _revive(self, baselines: bool) -> None:
        """Fresh trusted processes; what was known from the old ones is kept where it lies in files."""
        if baselines:
            self.bench.pool.restart(fresh_values=self._next_values)
        else:
            self._workers.restart()

    @contextmanager
    def _stage(self, name: str, text: str) -> Iterator[None]:
        self.progress(text)
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - start

    @contextmanager
    def _guard_trusted(self, what: str) -> Iterator[None]:
        """End the run where a trusted process is lost outside of any candidate's judgement."""
        try:
            yield
        except (WorkerDied, WorkerTimeout, WorkerFailed) as error:
            raise JudgeError(f"{what} on {self.task.name}: {error}") from error
