"""The baselines of one task in processes that stay: what candidates are timed against.

In: a timing session and a provider of fresh values files. Out: `timings`, one for each baseline, and `samples`: what each was given and
returned, for the caller to check. `restart` puts fresh processes in their place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from ...errors import JudgeError, WarpsmithError
from ...processes.worker import WorkerDied, WorkerFailed, WorkerTimeout
from ...records import BaselineTiming, Graph
from ..device.patience import WAITING, Patience, describe_no_memory, is_out_of_memory
from . import stats
from .baselines import Baselines, baseline_names
from .interleaved_rounds import BaselineLost, InterleavedRounds, TimedSample
from .rewritten_reference import REWRITTEN
from .timed_process import TimedProcess
from .timing_session import CHECK_SECONDS, FreshValues, TimingSession

BASELINE_SECONDS = 0.25  # of timing for each baseline at the start
MUCH_SLOWER = 10.0  # times the best baseline: a rewritten reference that takes longer need not be timed


class BaselinePool:
    def __init__(self, session: TimingSession) -> None:
        self._session, self.task, self.device = session, session.task, session.device
        self.timings: dict[str, BaselineTiming] = {}
        self.samples: dict[str, TimedSample] = {}
        self._loading = ExitStack()
        self._baselines: Baselines | None = None
        self._names = baseline_names(self.task, self.device)
        self._fresh: FreshValues | None = None
        self._rewritten: Graph | None = None
        self._worked: dict[str, BaselineTiming] = {}  # as first measured, once they were started again

    def begin(self, names: Sequence[str] | None = None, *, fresh_values: FreshValues) -> None:
        """Launch the baselines (None: all of the device's) and the zygote, and return while they load and
        compile. `start` goes on from here.
        """
        self._names = self._names if names is None else tuple(names)
        self._fresh = fresh_values
        session = self._session
        self._baselines = Baselines(
            self.task, session.task_file, scratch=session.scratch, workdir=session.workdir, cache_dir=session.cache_dir,
            threads=session.threads, flush_bytes=session.flush_bytes, device=self.device, progress=session.progress,
            compiler=session.compiler,
        )  # fmt: skip
        self._baselines.start(self._names, fresh_values())
        self._loading.enter_context(
            session.device_lock.run_in_background(self._baselines.pause, self._baselines.resume)
        )
        session.start_zygote()

    def start(
        self, names: Sequence[str] | None = None, *, fresh_values: FreshValues,
        known: Mapping[str, BaselineTiming] | None = None,
    ) -> dict[str, BaselineTiming]:  # fmt: skip
        """Wait for the baselines and time them side by side, unless `known` says how long they take. A baseline that does
        not work is `ok=False` with the reason.

        Raises JudgeError when none works.
        """
        if self._baselines is None:
            self.begin(names, fresh_values=fresh_values)
        assert self._baselines is not None
        with self._loading:
            self._session.progress("compiling the baselines")
            self._baselines.ready()
        values = [fresh_values(), fresh_values()]
        if self.device == "cuda":
            self._warm_up(self._baselines, values[0])
        if known is not None:
            return self._expect(self._baselines, known)
        self._session.progress("timing the baselines")
        self._take_samples(self._time_baselines(self._baselines, values))
        return self.timings

    def _expect(self, baselines: Baselines, known: Mapping[str, BaselineTiming]) -> dict[str, BaselineTiming]:
        """The times that processes of the same baselines had."""
        for name, process in list(baselines.alive.items()):
            if name not in known:
                baselines.record_failure(name, "it failed before")
                continue
            self.timings[name] = known[name]
            process.expected = known[name].median_us * 1e-6
            process.rest()
        self._without_failures(baselines)
        return self.timings

    def _without_failures(self, baselines: Baselines) -> None:
        """The reason of each that failed. Raises JudgeError when all have."""
        if not baselines.alive:
            reason = next(iter(baselines.failures.values()), "none was asked for")
            raise JudgeError(f"no baseline of {self.task.name} runs: {reason}")
        for name, reason in baselines.failures.items():
            self.timings[name] = BaselineTiming(name=name, ok=False, reason=reason)

    def _warm_up(self, baselines: Baselines, values: Path) -> None:
        """The first calls, and copying the values to the device, disturb nobody who measures."""
        patience = Patience()
        for name, process in list(baselines.alive.items()):
            while True:
                try:
                    with self._session.device_lock.run_in_background(process.pause, process.resume):
                        process.prepare(values, 1, alone=False)
                except WarpsmithError as error:
                    if self._try_again(baselines, error, patience):
                        continue
                    baselines.record_failure(name, self._reason(error, patience))
                break

    def _try_again(self, baselines: Baselines, error: WarpsmithError, patience: Patience) -> bool:
        """Decide to try again what found no memory on the GPU: then wait, holding as little as possible, for other runs to
        leave some.
        """
        if self.device == "cpu" or not is_out_of_memory(error) or patience.over:
            return False
        self._session.progress(WAITING)
        baselines.rest()
        patience.wait()
        return True

    def _reason(self, error: WarpsmithError, patience: Patience) -> str:
        if self.device == "cuda" and is_out_of_memory(error):
            return describe_no_memory(error, patience.waited)
        return str(error)

    def _time_baselines(self, baselines: Baselines, values: Sequence[Path]) -> InterleavedRounds:
        """First times of all that work. One for which the GPU has no memory is lost when patience is over."""
        patience = Patience()
        while True:
            try:
                with self._session.device_lock.hold_exclusive(), self._session.pin(baselines.alive.values()):
                    self._estimate_all(baselines, values[0])
                    return self._time_together(
                        list(baselines.alive.values()),
                        values,
                        baselines.compile_seconds,
                        self._session.sampled,
                    )
            except (WorkerFailed, BaselineLost) as error:
                if self._try_again(baselines, error, patience):
                    continue
                if self.device == "cpu" or not is_out_of_memory(error):
                    raise
                # What the first process of a session says reaches us as it is.
                name = error.name if isinstance(error, BaselineLost) else next(iter(baselines.alive))
                baselines.record_failure(name, self._reason(error, patience))

    def _estimate_all(self, baselines: Baselines, values: Path) -> None:
        """Seconds of a call of each that has none yet. Raises BaselineLost where the GPU has no memory for one, JudgeError when
        none is left.
        """
        for name, process in list(baselines.alive.items()):
            if process.expected:
                continue
            try:
                process.expected = self._session.estimate(process, values)
            except WarpsmithError as error:
                if self.device == "cuda" and is_out_of_memory(error):
                    raise BaselineLost(f"the {name} baseline failed: {error}", name) from error
                baselines.record_failure(name, str(error))
        self._without_failures(baselines)

    def _time_together(
        self, processes: Sequence[TimedProcess], values: Sequence[Path], compile_seconds: Mapping[str, float],
        sampled: int | None,
    ) -> InterleavedRounds:  # fmt: skip
        """First times of baselines."""
        timed = self._session.interleave(processes, values, True, sampled)
        expected = [p.expected for p in processes]
        timed.run(*self._session.plan(expected, BASELINE_SECONDS * len(expected), None))
        for process in processes:
            name, time = process.name, stats.typical([b.ns for b in timed.blocks[process.name]])
            process.expected = time.median * 1e-9
            self.timings[name] = BaselineTiming(
                name=name, ok=True,
                median_us=time.median / 1e3, low_us=time.low / 1e3, high_us=time.high / 1e3,
                compile_seconds=0.0 if name == "eager" else compile_seconds.get(name, 0.0),
            )  # fmt: skip
        return timed

    def _take_samples(self, timed: InterleavedRounds) -> None:
        """Keep what each baseline returns; after that it needs no memory until it is timed again."""
        for process in timed.processes:
            with self._session.device_lock.run_in_background(process.pause, process.resume):
                self.samples[process.name] = timed.sample(process)
                if self.device == "cuda":
                    process.rest()

    def add_rewritten(self, graph: Graph, fresh_values: FreshValues) -> None:
        """One more baseline until `drop_rewritten`: this graph in ATen, in a process as a candidate has. Where it does
        not run, or is much slower than another, its timing says so (`ok=False`).
        """
        if self._baselines is None or not self.timings:
            raise JudgeError("the baselines have not been started")
        self._rewritten, values = graph, [fresh_values(), fresh_values()]
        patience = Patience()
        while True:
            try:
                self._time_rewritten(self._baselines, graph, values)
            except (WorkerDied, WorkerFailed, WorkerTimeout) as error:
                self._baselines.drop(REWRITTEN)
                if self._try_again(self._baselines, error, patience):
                    continue
                self.drop_rewritten(self._reason(error, patience))
            return

    def _time_rewritten(self, baselines: Baselines, graph: Graph, values: Sequence[Path]) -> None:
        usual = self.timings[self.best].median_us * 1e-6
        with self._session.device_lock.hold_exclusive():
            process = self._session.fork([], REWRITTEN, graph)
            baselines.add(process)
            process.expected = self._session.estimate(process, values[0])
            if process.expected > MUCH_SLOWER * usual + CHECK_SECONDS:
                times = process.expected / usual
                self.drop_rewritten(f"it takes {times:.0f} times as long as {self.best}")
            else:
                self._take_samples(self._time_together([process], values, {}, None))

    def _drop_samples(self) -> None:
        for sample in self.samples.values():
            sample.remove()
        self.samples = {}

    def drop_rewritten(self, reason: str = "") -> None:
        """It counts no more; for a reason, which its timing keeps, or because its candidate was confirmed."""
        self._rewritten = None
        if self._baselines is not None:
            self._baselines.drop(REWRITTEN)
        self.timings.pop(REWRITTEN, None)
        self.samples.pop(REWRITTEN, None)
        if reason:
            self.timings[REWRITTEN] = BaselineTiming(name=REWRITTEN, ok=False, reason=reason)

    def restart(self, *, fresh_values: FreshValues | None = None) -> dict[str, BaselineTiming]:
        """The same baselines in fresh processes, and a fresh zygote; on a CPU timed anew. Raises BaselineLost when one that
        worked at first does not, tried twice: a candidate would have a rival less. JudgeError when none works.
        """
        fresh, rewritten = fresh_values or self._fresh, self._rewritten
        if fresh is None:
            raise JudgeError("the baselines have not been started")
        self._worked = self._worked or {n: t for n, t in self.timings.items() if t.ok and n != REWRITTEN}
        self._in_fresh_processes(fresh)
        if self._not_again():
            self._in_fresh_processes(fresh)
        for lost in self._not_again():
            reason = self.timings[lost].reason
            raise BaselineLost(f"the {lost} baseline, which worked before, does not now: {reason}")
        if rewritten is not None:  # what it returns was checked when it was added
            self.add_rewritten(rewritten, fresh)
        return self.timings

    def begin_again(self, names: Sequence[str], *, fresh_values: FreshValues) -> None:
        """End what runs and launch these baselines, which `start` then waits for and times."""
        self._end()
        self.begin(names, fresh_values=fresh_values)

    def _end(self) -> None:
        self.close()
        self._session.close()
        self._drop_samples()
        self.timings = {}

    def _in_fresh_processes(self, fresh: FreshValues) -> None:
        self._end()
        first_timings = self._worked if self.device == "cuda" and self._worked else None
        self.start(self._names, fresh_values=fresh, known=first_timings)
        self._drop_samples()  # the first processes' were checked

    def _not_again(self) -> list[str]:
        return [n for n in self._worked if not self.timings[n].ok]

    def process(self, name: str) -> TimedProcess:
        """A baseline's process. Raises BaselineLost when it is not running."""
        if self._baselines is None or name not in self._baselines.alive:
            raise BaselineLost(f"the {name} baseline is not running")
        return self._baselines.alive[name]

    @property
    def best(self) -> str:
        """The fastest baseline as first measured."""
        working = [t for t in self.timings.values() if t.ok]
        return min(working, key=lambda t: t.median_us).name

    def opponents(self, names: Sequence[str] | None) -> list[TimedProcess]:
        if self._baselines is None or not self.timings:
            raise JudgeError("the baselines have not been started")
        chosen = dict.fromkeys([self.best, "eager"] if names is None else names)
        alive = self._baselines.alive
        lost = [
            n
            for n in chosen
            if self.timings.get(n) is not None
            and self.timings[n].ok
            and not (n in alive and alive[n].worker.alive)
        ]
        if lost:
            raise BaselineLost(f"the {lost[0]} baseline's process ended")
        return [alive[n] for n in chosen if n in alive]

    def close(self) -> None:
        """End the baselines' processes."""
        self._loading.close()
        if self._baselines is not None:
            self._baselines.close()
        self._baselines = None
