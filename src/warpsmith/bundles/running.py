"""Judge a bundle on this machine: without an archive, a key for a language model, or the internet.

In: a bundle, and a folder for its results. Out: that folder with a copy of the bundle and the journal, one durable line for each thing
that was judged. Each task's judge is opened once; its candidates are built and judged side by side, the best confirmed in fresh
processes; canaries are judged again when all else is done. The same call goes on where the last one ended.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from .. import __version__, plugins
from ..config import Config
from ..errors import Interrupted, JudgeError, TaskError, ToolchainError, WarpsmithError
from ..executors.local import LocalExecutor
from ..judge.building import build_all
from ..judge.judge import Judge
from ..machine import describe, gpu
from ..processes.buffers import Scratch
from ..progress import Observer, counted
from ..records import Candidate, Environment, Result, Task
from ..targets.target import Target
from .bundle import Bundle, read_bundle
from .container import write_files
from .journal import ROWS, Journal, Pass, ResultRow, TaskRow
from .manifest import BundleError, same
from .standing import Standing, expect_own
from .time_limit import TimeIsUp, time_limit

COPY = "bundle"  # the bundle's place in the folder of its results
AT_ONCE = 12  # candidates that are built and verified together


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    bundle: Bundle
    standing: Standing
    environment: Environment
    wanted: dict[str, frozenset[str]]  # task id → candidate ids
    in_time: bool  # whether the end was not the time limit

    @property
    def left(self) -> dict[str, list[str]]:
        """Task → what is left of it, in words."""
        return {self.label(t): left for t in self.wanted if (left := self.standing.left(t))}

    @property
    def unopened(self) -> dict[str, str]:
        """Task → why it was given up."""
        return {self.label(t): why for t in self.wanted if (why := self.standing.gave_up(t))}

    def label(self, task_id: str) -> str:
        """The task's name, with its id where two have that name."""
        name = self.bundle.tasks[task_id].name
        return name if [t.name for t in self.bundle.tasks.values()].count(name) == 1 else f"{name} {task_id}"

    @property
    def candidates(self) -> list[Candidate]:
        return [c for t, ids in self.wanted.items() for c in self.bundle.candidates_of(t) if c.id in ids]

    @property
    def failed(self) -> bool:
        """Whether all is judged and nothing valid was among it."""
        firsts = [self.standing.first(c) for c in self.candidates]
        valid = any(r is not None and r.status == "ok" for r in firsts)
        return not self.left and not valid and bool(self.candidates or self.unopened)


def run_bundle(
    bundle: Bundle, out: Path, *, config: Config, observer: Observer, seconds: float | None = None,
    only: Sequence[str] = (), key: bytes | None = None, quick: bool = False,
) -> Ended:  # fmt: skip
    """Judge what is left of the bundle. `only`: names or ids of tasks, or ids of candidates. `seconds`: wall time. `quick`:
    the first measurements look at the main shapes only; a confirmation looks at everything, and there is none of what surely does not win.

    Raises BundleError for results of another bundle, ToolchainError without a compiler or GPU, Interrupted.
    """
    wanted = selected(bundle, only)
    target = usable_target(bundle.manifest.target, config)
    keep_copy(bundle, out)
    in_time = True
    with Journal(out, bundle.root, __version__, key) as journal:
        expect_own(bundle, journal.rows, out / ROWS)
        ends = time.monotonic() + seconds if seconds is not None else None
        run = _BundleRun(bundle, journal, config, observer, target, wanted, ends, quick)
        try:
            with time_limit(seconds):
                run.play()
        except TimeIsUp:
            in_time = False
            observer.note("the time limit is reached")
        except KeyboardInterrupt:
            done = counted(len(journal.rows), "row")
            raise Interrupted(
                f"interrupted: {out} holds {done}; the same command goes on from there"
            ) from None
        standing = run.standing()
    return Ended(bundle, standing, run.environment, wanted, in_time)


@dataclass
class _BundleRun:
    bundle: Bundle
    journal: Journal
    config: Config
    observer: Observer
    target: Target
    wanted: dict[str, frozenset[str]]  # task id → candidate ids
    ends: float | None  # of the monotonic clock; None: no limit
    quick: bool = False

    def __post_init__(self) -> None:
        device = "cuda" if self.target.language == "cuda" else "cpu"
        self.environment = describe(getattr(self.target, "compiler", None), device)

    def standing(self) -> Standing:
        wanted = frozenset[str]().union(*self.wanted.values())
        return Standing(
            self.bundle, self.journal.rows, self.environment.id, self.config.confirm, wanted, self.quick
        )

    def play(self) -> None:
        for number, task_id in enumerate(self.wanted, 1):
            task = self.bundle.tasks[task_id]
            if not self.standing().done(task_id):
                self.observer.note(f"[{number}/{len(self.wanted)}] {task.name}")
                self._task(task, canaries=False)
        for task_id in self.wanted:
            if self.standing().to_repeat(task_id) and not self.standing().gave_up(task_id):
                self.observer.note(f"judging a canary of {self.bundle.tasks[task_id].name} again")
                self._task(self.bundle.tasks[task_id], canaries=True)

    def _task(self, task: Task, canaries: bool) -> None:
        """Open the judge and let it judge; a task on which it cannot becomes a row with the reason."""
        seed = secrets.randbits(31)
        try:
            with Scratch() as scratch, self._judge(task, seed, scratch) as judge:
                with self._building(task):
                    judge.open()
                row = self._row(task, seed)
                self.journal.append(
                    row.model_copy(
                        update={
                            "baselines": tuple(judge.baselines.values()),
                            "limit": judge.limit,
                            "admission": judge.admission,
                        }
                    )
                )
                executor = LocalExecutor(judge)
                if canaries:
                    self._judged(executor, self.standing().to_repeat(task.id), "canary")
                else:
                    self._candidates(task, executor)
        except (TaskError, JudgeError) as error:
            status = "task-error" if isinstance(error, TaskError) else "judge-error"
            self.journal.append(
                self._row(task, seed).model_copy(update={"status": status, "reason": str(error)})
            )
            self.observer.note(f"{task.name}: {error}")

    @contextmanager
    def _building(self, task: Task) -> Iterator[None]:
        """Where what is timed has processors of its own, all that will be searched is built meanwhile, into the cache."""
        if self.config.timed_on is None:
            yield
            return
        variants = (task.main.name,) if self.quick else None

        def build() -> None:
            with suppress(WarpsmithError):  # whoever asks for it again is told
                build_all(self.standing().to_judge(task.id), task, self.target, variants)

        with ThreadPoolExecutor(1) as pool:
            pool.submit(build)
            yield

    def _judge(self, task: Task, seed: int, scratch: Scratch) -> Judge:
        return Judge(
            task, self.target, scratch=scratch, workdir=scratch.new("run"), seed=seed, progress=self.observer.stage,
            baselines=self.config.baselines, peaks_cache=self.config.cache, profile=False, quick=self.quick,
            memory_gb=self.config.judge_memory_gb, timed_on=self.config.timed_on,
        )  # fmt: skip

    def _row(self, task: Task, seed: int) -> TaskRow:
        return TaskRow(
            task_id=task.id,
            environment=self.environment,
            seed=seed,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def _candidates(self, task: Task, executor: LocalExecutor) -> None:
        waiting = self.standing().to_judge(task.id)
        for start in range(0, len(waiting), AT_ONCE):
            self._judged(executor, waiting[start : start + AT_ONCE], "search")
        while (candidate := self.standing().to_confirm(task.id)) is not None:
            self._keep("confirmation", executor.confirm(candidate))

    def _judged(self, executor: LocalExecutor, candidates: Sequence[Candidate], phase: Pass) -> None:
        for result in executor.run(candidates):
            self._keep(phase, result)

    def _keep(self, phase: Pass, result: Result) -> None:
        """One more durable line. Paths of built libraries stay here: they mean nothing elsewhere."""
        builds = tuple(b.model_copy(update={"library": ""}) for b in result.builds)
        self.journal.append(ResultRow(phase=phase, result=result.model_copy(update={"builds": builds})))
        judged = [r.result for r in self.standing().results]
        speeds = [r.speedup for r in judged if r.speedup is not None and r.task_id == result.task_id]
        best = max(speeds, key=lambda s: s.median, default=None)
        self.observer.evaluated(
            len({r.candidate_id for r in judged}), sum(len(ids) for ids in self.wanted.values()), result.status,
            f"{best.median:.2f}x {best.baseline}" if best is not None else "",
            self.ends - time.monotonic() if self.ends is not None else None,
        )  # fmt: skip


def selected(bundle: Bundle, only: Sequence[str]) -> dict[str, frozenset[str]]:
    """Task id → ids of the candidates to judge. Raises BundleError for a name that is nothing in the bundle."""
    for name in only:
        if not any(name in (t.id, t.name) for t in bundle.tasks.values()) and name not in bundle.candidates:
            known = ", ".join(t.name for t in bundle.tasks.values())
            raise BundleError(f"--only {name}: no task and no candidate of the bundle; its tasks are {known}")
    found: dict[str, frozenset[str]] = {}
    for task in bundle.tasks.values():
        whole = not only or task.id in only or task.name in only
        mine = frozenset(c.id for c in bundle.candidates_of(task.id) if whole or c.id in only)
        if mine or whole:
            found[task.id] = mine
    return found


def usable_target(name: str, config: Config) -> Target:
    """The bundle's target, with its tools found. Raises ToolchainError."""
    target: Target = plugins.load("targets", name)(config.cache, config.compiler, config.threads)
    if target.language == "cuda" and gpu() is None:
        raise ToolchainError(
            "the bundle is for CUDA and there is no NVIDIA GPU here: run it on a machine with one"
        )
    return target


def keep_copy(bundle: Bundle, out: Path) -> None:
    """The bundle beside its results, so that they can be imported by themselves. Raises BundleError."""
    if not (out / COPY).exists():
        write_files(out / COPY, bundle.files)
    elif not same(read_bundle(out / COPY).root, bundle.root):
        raise BundleError(f"{out} holds results of another bundle: name another --out")
