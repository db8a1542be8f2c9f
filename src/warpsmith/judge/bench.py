"""Timing side by side: a candidate's process against the baselines' own processes, in interleaved rounds.

In: a task, built libraries and a provider of fresh values files. Out: a `Timing` with a ratio against each
baseline that was measured in the same rounds, and samples of what the timed calls were given and returned,
for the caller to check. Each round visits every process for one block of calls, in an order that is drawn
anew each time. The supervisor's own clock runs over every block; where it disagrees with the process's
beyond the stated noise there is no measurement (`ClocksDisagree`).
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Literal

import psutil

from ..errors import JudgeError, WarpsmithError
from ..processes.buffers import Scratch
from ..processes.worker import Worker, WorkerDied, WorkerFailed, WorkerTimeout
from ..records import BaselineTiming, Candidate, Graph, Ratio, Region, Task, Timing
from ..runtime.rewrites import deployed_graph
from . import gpu_state, stats
from .baselines import Baselines, baseline_names
from .eviction import flush_bytes
from .evidence import secret_looks
from .memory import crowded
from .rewritten import REWRITTEN
from .session import (
    FLUSH_TRUST,
    GPU_AUDIT,
    GPU_ROUNDS,
    GPU_TRUST,
    ROUNDS,
    BaselineLost,
    ClocksDisagree,
    Session,
    TimedSample,
    agree,
    agree_with_batch,
    plan,
)
from .timed_process import Block, TimedProcess, fork_candidate, start_zygote
from .turns import Turns

__all__ = ["BaselineLost", "Bench", "BenchRun", "ClocksDisagree", "TimedSample"]

FreshValues = Callable[[], Path]

CONFIRM_ROUNDS, GPU_CONFIRM_ROUNDS = 32, 16  # what a confirmation asks for; a GPU's calls vary less
SEARCH_SECONDS = {"cpu": 0.35, "cuda": 0.15}  # of timing a process in a search; a GPU's calls vary less
BASELINE_SECONDS = 0.25  # of timing for each baseline at the start
CHECK_SECONDS = 0.02  # of calls in a clock check
CHECK_CALLS = {"cpu": 400, "cuda": 4000}  # at most; a GPU's shortest calls need many to fill the time
CHECK_ATTEMPTS = 4
MUCH_SLOWER = 10.0  # times the best baseline: a rewritten reference that takes longer need not be timed
LONG_SECONDS, FEW = 0.1, 20  # a GPU's call that is shorter is estimated from so many
GPU_FLUSH = 200 << 20  # bytes that a GPU reads between cold calls, roughly: its process knows its L2
GPU_RATE = 2e12  # bytes a second at which a GPU does what lies between calls, roughly
GPU_CALL_SECONDS = 300e-6  # that the host needs to queue it, and to wait for the call
# Of `process_floor`, fitted to A/A trials over 22 pairs of processes on an H200.
GPU_FLOOR, GPU_SHORT_NS = 0.005, 1200.0


@dataclass(frozen=True)
class BenchRun:
    timing: Timing
    samples: tuple[TimedSample, ...]  # of the candidate's timed calls
    blocks: dict[str, list[Block]] = field(default_factory=dict)  # raw, by process name


class Bench:
    """Baselines and the zygote of one task."""

    def __init__(
        self,
        task: Task,
        *,
        scratch: Scratch,
        workdir: Path,
        threads: int,
        progress: Callable[[str], None] = lambda message: None,
        cache_dir: Path | None = None,
        device: str = "cpu",
        turns: Turns | None = None,
        timed_on: Collection[int] | None = None,
        looked: int | None = None,
    ) -> None:
        """`looked`: elements of each output that a sample of a search holds, None: all. `timed_on`: processors for what is timed, and for who asks it, where others work beside. `turns`: whatever is timed has the device to itself; baselines that load and compile pause meanwhile."""
        self.device, self._turns, self._loading = device, turns or Turns(), ExitStack()
        self._timed_on, self._looked = timed_on, looked
        self.task, self.scratch, self.workdir = task, scratch, workdir
        self.threads, self.progress = threads, progress
        self.flush_bytes = GPU_FLUSH if device == "cuda" else flush_bytes(threads)
        if device == "cpu" and task.graph.least_bytes > self.flush_bytes:
            self.flush_bytes = 0  # the task evicts its own data; on a GPU the flush also hides the launch
        workdir.mkdir(parents=True, exist_ok=True)
        self.task_file, self.graph_file = workdir / "task.json", workdir / "graph.json"
        self.task_file.write_text(task.model_dump_json())
        self.graph_file.write_text(task.graph.model_dump_json())
        self.cache_dir = cache_dir or workdir / "inductor"
        self.timings: dict[str, BaselineTiming] = {}
        self.baseline_samples: dict[str, TimedSample] = {}
        self._baselines: Baselines | None = None
        self._zygote: Worker | None = None
        self._names = baseline_names(task, device)
        self._fresh: FreshValues | None = None
        self._rewritten: Graph | None = None

    def begin(self, names: Sequence[str] | None = None, *, fresh_values: FreshValues) -> None:
        """Launch the baselines (None: all of the device's) and the zygote, and return while they load and
        compile. `start` goes on from here.
        """
        self._names = self._names if names is None else tuple(names)
        self._fresh = fresh_values
        self._baselines = Baselines(
            self.task, self.task_file, scratch=self.scratch, workdir=self.workdir, cache_dir=self.cache_dir,
            threads=self.threads, flush_bytes=self.flush_bytes, device=self.device,
        )  # fmt: skip
        self._baselines.start(self._names, fresh_values())
        self._loading.enter_context(self._turns.background(self._baselines.pause, self._baselines.resume))
        self._start_zygote()

    def _start_zygote(self) -> Worker:
        if self._zygote is None or not self._zygote.alive:
            self._zygote = start_zygote(
                self.graph_file, self.workdir / "zygote", self.threads, self.flush_bytes, self.device
            )
        return self._zygote

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
            self.progress("compiling the baselines")
            self._baselines.ready()
        values = [fresh_values(), fresh_values()]
        if self.device == "cuda":
            self._warm_up(self._baselines, values[0])
        if known is not None:
            return self._expect(self._baselines, known)
        self.progress("timing the baselines")
        with self._turns.measuring(), self._apart(self._baselines.alive.values()):
            session = self._time_baselines(self._baselines, values)
        self._take_samples(session)
        return self.timings

    def _expect(self, baselines: Baselines, known: Mapping[str, BaselineTiming]) -> dict[str, BaselineTiming]:
        """The times that processes of the same baselines had."""
        for name, process in list(baselines.alive.items()):
            if name not in known:
                baselines.lost(name, "it failed before")
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
        for name, process in list(baselines.alive.items()):
            try:
                with self._turns.background(process.pause, process.resume):
                    process.prepare(values, 1, alone=False)
            except WarpsmithError as error:
                baselines.lost(name, str(error))

    def _time_baselines(self, baselines: Baselines, values: Sequence[Path]) -> Session:
        for name, process in list(baselines.alive.items()):
            try:
                process.expected = self._estimate(process, values[0])
            except WarpsmithError as error:
                baselines.lost(name, str(error))
        self._without_failures(baselines)
        return self._time_together(list(baselines.alive.values()), values, baselines.compile_seconds)

    def _time_together(
        self, processes: Sequence[TimedProcess], values: Sequence[Path], compile_seconds: Mapping[str, float]
    ) -> Session:
        """First times of baselines."""
        session = self._session(processes, values, True, self._looked)
        expected = [p.expected for p in processes]
        session.run(*self._plan(expected, BASELINE_SECONDS * len(expected), None))
        for process in processes:
            name, time = process.name, stats.typical([b.ns for b in session.blocks[process.name]])
            process.expected = time.median * 1e-9
            self.timings[name] = BaselineTiming(
                name=name, ok=True,
                median_us=time.median / 1e3, low_us=time.low / 1e3, high_us=time.high / 1e3,
                compile_seconds=0.0 if name == "eager" else compile_seconds.get(name, 0.0),
            )  # fmt: skip
        return session

    def _take_samples(self, session: Session) -> None:
        """What each baseline returns; after that it needs no memory until it is timed again."""
        for process in session.processes:
            with self._turns.background(process.pause, process.resume):
                self.baseline_samples[process.name] = session.sample(process)
                if self.device == "cuda":
                    process.rest()

    def add_rewritten(self, graph: Graph, fresh_values: FreshValues) -> None:
        """One more baseline until `drop_rewritten`: this graph in ATen, in a process as a candidate has. Where it does
        not run, or is much slower than another, its timing says so (`ok=False`).
        """
        if self._baselines is None or not self.timings:
            raise JudgeError("the baselines have not been started")
        self._rewritten, values = graph, [fresh_values(), fresh_values()]
        usual = self.timings[self.best].median_us * 1e-6
        try:
            with self._turns.measuring():
                process = self._fork([], REWRITTEN, graph)
                self._baselines.add(process)
                process.expected = self._estimate(process, values[0])
                if process.expected > MUCH_SLOWER * usual + CHECK_SECONDS:
                    times = process.expected / usual
                    self.drop_rewritten(f"it takes {times:.0f} times as long as {self.best}")
                else:
                    self._take_samples(self._time_together([process], values, {}))
        except (WorkerDied, WorkerFailed, WorkerTimeout) as error:
            self.drop_rewritten(str(error))

    def _drop_samples(self) -> None:
        for sample in self.baseline_samples.values():
            sample.remove()
        self.baseline_samples = {}

    def drop_rewritten(self, reason: str = "") -> None:
        """It counts no more; for a reason, which its timing keeps, or because its candidate was confirmed."""
        self._rewritten = None
        if self._baselines is not None:
            self._baselines.drop(REWRITTEN)
        self.timings.pop(REWRITTEN, None)
        self.baseline_samples.pop(REWRITTEN, None)
        if reason:
            self.timings[REWRITTEN] = BaselineTiming(name=REWRITTEN, ok=False, reason=reason)

    def restart_baselines(self, *, fresh_values: FreshValues | None = None) -> dict[str, BaselineTiming]:
        """The same baselines in fresh processes, and a fresh zygote; on a CPU timed anew. Raises JudgeError when none
        works.
        """
        fresh, rewritten = fresh_values or self._fresh, self._rewritten
        known = {n: t for n, t in self.timings.items() if t.ok and n != REWRITTEN}
        if fresh is None:
            raise JudgeError("the baselines have not been started")
        self.close()
        self.timings, self.baseline_samples = {}, {}
        self.start(self._names, fresh_values=fresh, known=known if self.device == "cuda" and known else None)
        self._drop_samples()  # the first processes' were checked
        if rewritten is not None:  # what it returns was checked when it was added
            self.add_rewritten(rewritten, fresh)
        return self.timings

    def baseline(self, name: str) -> TimedProcess:
        """A baseline's process. Raises BaselineLost when it is not running."""
        if self._baselines is None or name not in self._baselines.alive:
            raise BaselineLost(f"the {name} baseline is not running")
        return self._baselines.alive[name]

    @property
    def best(self) -> str:
        """The fastest baseline as first measured."""
        working = [t for t in self.timings.values() if t.ok]
        return min(working, key=lambda t: t.median_us).name

    def time(
        self,
        candidate: Candidate,
        libraries: Mapping[str, Path],
        fresh_values: FreshValues,
        *,
        rounds: int | None = None,
        target_seconds: float | None = None,
        baselines: Sequence[str] | None = None,
        cold: bool = True,
        checks: int = 1,
    ) -> BenchRun:
        """Time a candidate. `baselines=None`: against the best one and eager; else against those named that
        work.

        `libraries` maps region id → built library, for units that are compiled. `rounds=None`: as many as fit `target_seconds` (None:
        `SEARCH_SECONDS`), ended early when hopeless. Raises WorkerDied, WorkerTimeout, WorkerFailed (the candidate's fault),
        ClocksDisagree (invalid), BaselineLost, JudgeError.
        """
        opponents = self._opponents(baselines)
        values = [fresh_values() for _ in range(1 if rounds is None else 3)]
        units, graph = candidate.compiled, deployed_graph(self.task.graph, candidate.units)
        own = graph if graph is not self.task.graph else None
        process = self._fork([(u.region, libraries[u.region.id]) for u in units], graph=own)
        covered = sum(len(u.region.nodes) for u in units)
        try:
            run = self.measure(
                process,
                opponents,
                values,
                rounds=rounds,
                target_seconds=target_seconds,
                cold=cold,
                checks=checks,
                launches=len(units) + len(graph.nodes) - covered,
            )
        finally:
            process.close()
        rewritten = self.timings.get(REWRITTEN)
        return replace(run, timing=run.timing.model_copy(update={"rewritten": rewritten}))

    def measure(
        self,
        process: TimedProcess,
        opponents: Sequence[TimedProcess],
        values: Sequence[Path],
        *,
        rounds: int | None = None,
        target_seconds: float | None = None,
        cold: bool = True,
        checks: int = 1,
        launches: int | None = None,
    ) -> BenchRun:
        """One process against others, whatever it runs; `launches` as in `agree_with_batch` (None: one for
        each node). Raises as `time` does.
        """
        if self.device == "cuda":
            with self._turns.background(process.pause, process.resume):
                process.prepare(values[0], 1, alone=False)
        with self._turns.measuring(), self._apart([process, *opponents]):
            return self._measured(process, opponents, values, rounds, target_seconds, cold, checks, launches)

    @contextmanager
    def _apart(self, processes: Iterable[TimedProcess]) -> Iterator[None]:
        """Processes, and this thread, on the processors that are kept for what is timed."""
        if self._timed_on is None:
            yield
            return
        before = os.sched_getaffinity(0)
        for process in list(processes):
            process.move(self._timed_on)
        os.sched_setaffinity(0, self._timed_on)
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)

    def _measured(
        self, process: TimedProcess, opponents: Sequence[TimedProcess], values: Sequence[Path], rounds: int | None,
        target_seconds: float | None, cold: bool, checks: int, launches: int | None,
    ) -> BenchRun:  # fmt: skip
        process.expected = self._estimate(process, values[0])
        warm = self._check_clocks(process)
        session = self._session([process, *opponents], values, cold, None if rounds else self._looked)
        expected = [p.expected for p in session.processes]
        seconds = SEARCH_SECONDS[self.device] if target_seconds is None else target_seconds
        count, calls = self._plan(expected, seconds * len(expected) / 2, rounds)
        session.run(count, calls, race=rounds is None, checks=checks)
        session.agree()
        busy = session.busy() if rounds is not None else ""  # a search goes on, but nothing is claimed
        if busy:
            self.progress(f"the machine is too busy for a claim: {busy}")
        steps = len(self.task.graph.nodes) + 1 if launches is None else launches
        warm = self._compare_with_batch(session, process, warm, steps if self.device == "cuda" else 0)
        for opponent in opponents if self.device == "cuda" and not session.rests else ():
            opponent.rest()
        timing = self._timing(session, process, list(warm.ns), cold, busy=bool(busy))
        if self.device == "cuda" and rounds is not None:  # asking takes too long for a search
            timing = timing.model_copy(update={"gpu_state": gpu_state.read()})
        return BenchRun(timing, tuple(session.samples), session.blocks)

    def _compare_with_batch(
        self, session: Session, process: TimedProcess, batch: Block, launches: int
    ) -> Block:
        """The batch, or a later one, that the session's calls agree with: a busy machine may have spoilt one."""
        for _ in range(CHECK_ATTEMPTS - 1):
            try:
                agree_with_batch(session.blocks[process.name], batch, launches)
                return batch
            except ClocksDisagree:
                batch = self._check_clocks(process)
        agree_with_batch(session.blocks[process.name], batch, launches)
        return batch

    def _session(
        self, processes: Sequence[TimedProcess], values: Sequence[Path], cold: bool, looked: int | None
    ) -> Session:
        trust, audit = (GPU_TRUST, GPU_AUDIT) if self.device == "cuda" else (FLUSH_TRUST, 0)
        inputs = self.task.graph.inputs
        return Session(
            processes, values, inputs, self.scratch.new, cold=cold, trust=trust, audit=audit,
            rests=self.device == "cuda" and crowded(self.task.graph),
            looks=tuple if looked is None else lambda: secret_looks(self.task.graph, looked),
        )  # fmt: skip

    def _opponents(self, names: Sequence[str] | None) -> list[TimedProcess]:
        if self._baselines is None or not self.timings:
            raise JudgeError("the baselines have not been started")
        wanted = dict.fromkeys([self.best, "eager"] if names is None else names)
        alive = self._baselines.alive
        lost = [
            n
            for n in wanted
            if self.timings.get(n) is not None
            and self.timings[n].ok
            and not (n in alive and alive[n].worker.alive)
        ]
        if lost:
            raise BaselineLost(f"the {lost[0]} baseline's process ended")
        return [alive[n] for n in wanted if n in alive]

    def _fork(
        self, units: Sequence[tuple[Region, Path]], name: str = "candidate", graph: Graph | None = None
    ) -> TimedProcess:
        zygote = self._start_zygote()
        parts = [{"region": r.model_dump(mode="json"), "library": str(path)} for r, path in units]
        memory = int(psutil.virtual_memory().available * 0.9)
        folder = self.scratch.new(f"bench-{name}")
        return fork_candidate(zygote, folder, parts, self.threads, memory, name, graph)

    def _estimate(self, process: TimedProcess, values: Path) -> float:
        """Seconds of a call, roughly: the fixed warm-up, the same for every process, then one call, or a few
        where that one meets fresh allocations.
        """
        process.prepare(values, 2)
        seconds = process.prepare(values, 1)
        if self.device == "cpu" or seconds > LONG_SECONDS:
            return seconds
        few = process.block(FEW, False, secrets.randbits(62), fresh=False)
        return few.wall_ns / FEW * 1e-9

    def _check_clocks(self, process: TimedProcess) -> Block:
        """Batches of nothing but calls, where nearly all of the wall time must be the calls' own. Returns the
        one that agreed.

        A busy machine can make one batch disagree, so the process has a few; a clock that lies disagrees in
        each.
        """
        most = CHECK_CALLS[self.device]
        n = max(2, min(most, int(CHECK_SECONDS / max(process.expected, 1e-6))))
        for attempt in range(CHECK_ATTEMPTS):
            block = process.block(n, False, secrets.randbits(62), fresh=False)
            if self.device == "cuda" and block.wall_ns < CHECK_SECONDS * 0.5e9 and n < most:
                # What the process said of its calls made the batch too short to prove anything.
                n = min(most, math.ceil(n * CHECK_SECONDS * 1e9 / block.wall_ns))
                block = process.block(n, False, secrets.randbits(62), fresh=False)
            try:
                agree(block, 0.0)
                break
            except ClocksDisagree:
                if attempt == CHECK_ATTEMPTS - 1:
                    raise
        process.expected = median(block.ns) * 1e-9
        return block

    def _plan(self, expected: Sequence[float], seconds: float, rounds: int | None) -> tuple[int, list[int]]:
        most = GPU_ROUNDS if self.device == "cuda" else ROUNDS[1]
        return plan(expected, seconds, self._gap(), rounds, most)

    def _gap(self) -> float:
        """Seconds between two timed calls of a cold block: eviction, new contents for some of the inputs,
        outputs overwritten.
        """
        graph = self.task.graph
        given = sum(i.spec.nbytes for i in graph.inputs if i.role == "input")
        made = sum(graph.specs[name].nbytes for name in graph.returned)
        if self.device == "cuda":
            return GPU_CALL_SECONDS + (self.flush_bytes + given / 2 + made) / GPU_RATE
        return 20e-6 + (self.flush_bytes + given / 2 + made) / 30e9

    def _timing(
        self, session: Session, process: TimedProcess, warm: list[int], cold: bool, busy: bool
    ) -> Timing:
        """`busy`: the baselines may have done nothing but wait, so the ratios have no lower end."""
        own = [b.ns for b in session.blocks[process.name]]
        time = stats.typical(own)
        ratios, floor = [], process_floor(self.device, time.median)
        for other in session.processes[1:]:
            found = stats.ratio([b.ns for b in session.blocks[other.name]], own, floor=floor)
            low = 0.0 if busy else found.low
            ratios.append(Ratio(baseline=other.name, median=found.median, low=low, high=found.high))
        kept = session.blocks[process.name]
        accounted = sum(sum(b.ns) + b.between_ns for b in kept) / sum(b.wall_ns for b in kept)
        steady = session.processes[1:] or [process]
        drift = max(stats.spread([b.ns for b in session.blocks[p.name]]) for p in steady)
        state: Literal["cold", "warm"] = "cold" if cold and self.flush_bytes else "warm"
        return Timing(
            median_us=time.median / 1e3, low_us=time.low / 1e3, high_us=time.high / 1e3, cache=state,
            samples=sum(len(b) for b in own), ratios=tuple(ratios), warm_us=median(warm) / 1e3,
            wall_share=min(accounted, 1.0), drift=drift, isolation=process.isolation,
        )  # fmt: skip

    def close(self) -> None:
        """End every process."""
        self._loading.close()
        if self._baselines is not None:
            self._baselines.close()
        if self._zygote is not None:
            self._zygote.close()
        self._baselines = self._zygote = None


def process_floor(device: str, ns: float) -> float:
    """Relative systematic difference between two processes that run the same code, for calls of `ns`.

    On a GPU pairs of processes differ by up to 8 % at 5 µs, 1.7 % at 12 µs, and little from 50 µs on.
    """
    return GPU_FLOOR + (GPU_SHORT_NS / ns) ** 2 if device == "cuda" else stats.PROCESS_FLOOR
