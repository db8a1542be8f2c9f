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
from ..records.intervals import describe_ratio, find_worth
from ..targets.target import Target
from .bundle import Bundle, read_bundle
from .container import write_files
from .journal import ROWS, Journal, Pass, ResultRow, TaskRow
from .manifest import BundleError, same_seal
from .standing import Standing, check_rows
from .time_limit import TimeIsUp, time_limit

COPY = "bundle"  # the bundle's place in the folder of its results
BATCH_SIZE = 12  # candidates that are built and verified together


@dataclass(frozen=True)
class BundleOutcome:
    """The outcome of `run_bundle`: the standing of the selected candidates."""

    bundle: Bundle
    standing: Standing
    environment: Environment
    selection: dict[str, frozenset[str]]  # task id → candidate ids
    in_time: bool  # False when the time limit ended it

    @property
    def left(self) -> dict[str, list[str]]:
        """Task → the work that remains, in words."""
        return {
            self.label(t): remaining for t in self.selection if (remaining := self.standing.list_remaining(t))
        }

    @property
    def unopened(self) -> dict[str, str]:
        """Task → the reason why it was given up."""
        return {self.label(t): why for t in self.selection if (why := self.standing.why_given_up(t))}

    def label(self, task_id: str) -> str:
        """Return the task's name, with its id where two have that name."""
        name = self.bundle.tasks[task_id].name
        return name if [t.name for t in self.bundle.tasks.values()].count(name) == 1 else f"{name} {task_id}"

    @property
    def candidates(self) -> list[Candidate]:
        return [c for t, ids in self.selection.items() for c in self.bundle.candidates_of(t) if c.id in ids]

    @property
    def failed(self) -> bool:
        """True when all candidates are judged and none of them is valid."""
        firsts = [self.standing.find_first(c) for c in self.candidates]
        valid = any(r is not None and r.status == "ok" for r in firsts)
        return not self.left and not valid and bool(self.candidates or self.unopened)


def run_bundle(
    bundle: Bundle, out: Path, *, config: Config, observer: Observer, seconds: float | None = None,
    only: Sequence[str] = (), key: bytes | None = None, quick: bool = False,
) -> BundleOutcome:  # fmt: skip
    """Judge the candidates of the bundle that have no result yet. `only`: names or ids of tasks, or ids of candidates. `seconds`: wall time. `quick`:
    the first measurements look at the main shapes only; a confirmation looks at everything, and a candidate whose whole interval is slower is not confirmed.

    Raises BundleError for results of another bundle, ToolchainError without a compiler or GPU, Interrupted.
    """
    selection = select_candidates(bundle, only)
    target = find_target(bundle.manifest.target, config)
    keep_copy(bundle, out)
    in_time = True
    with Journal(out, bundle.root, __version__, key) as journal:
        check_rows(bundle, journal.rows, out / ROWS)
        deadline = time.monotonic() + seconds if seconds is not None else None
        run = _BundleRun(bundle, journal, config, observer, target, selection, deadline, quick)
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
    return BundleOutcome(bundle, standing, run.environment, selection, in_time)


@dataclass
class _BundleRun:
    bundle: Bundle
    journal: Journal
    config: Config
    observer: Observer
    target: Target
    selection: dict[str, frozenset[str]]  # task id → candidate ids
    deadline: float | None  # of the monotonic clock; None: no limit
    quick: bool = False

    def __post_init__(self) -> None:
        device = "cuda" if self.target.language == "cuda" else "cpu"
        self.environment = describe(getattr(self.target, "compiler", None), device)

    def standing(self) -> Standing:
        selection = frozenset[str]().union(*self.selection.values())
        return Standing(
            self.bundle, self.journal.rows, self.environment.id, self.config.confirm, selection, self.quick
        )

    def play(self) -> None:
        for number, task_id in enumerate(self.selection, 1):
            task = self.bundle.tasks[task_id]
            if not self.standing().is_done(task_id):
                self.observer.note(f"[{number}/{len(self.selection)}] {task.name}")
                self._judge_task(task, canaries=False)
        for task_id in self.selection:
            if self.standing().list_to_repeat(task_id) and not self.standing().why_given_up(task_id):
                self.observer.note(f"judging a canary of {self.bundle.tasks[task_id].name} again")
                self._judge_task(self.bundle.tasks[task_id], canaries=True)

    def _judge_task(self, task: Task, canaries: bool) -> None:
        """Open the judge and let it judge; a task on which it cannot becomes a row with the reason."""
        seed = secrets.randbits(31)
        try:
            with Scratch() as scratch, self._make_judge(task, seed, scratch) as judge:
                with self._build_ahead(task):
                    judge.open()
                row = self._make_row(task, seed)
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
                    self._judge_candidates(executor, self.standing().list_to_repeat(task.id), "canary")
                else:
                    self._judge_all(task, executor)
        except (TaskError, JudgeError) as error:
            status = "task-error" if isinstance(error, TaskError) else "judge-error"
            self.journal.append(
                self._make_row(task, seed).model_copy(update={"status": status, "reason": str(error)})
            )
            self.observer.note(f"{task.name}: {error}")

    @contextmanager
    def _build_ahead(self, task: Task) -> Iterator[None]:
        """Build the candidates into the cache meanwhile, where timing has processors of its own."""
        if self.config.timed_on is None:
            yield
            return
        variants = (task.main.name,) if self.quick else None

        def build() -> None:
            with suppress(WarpsmithError):  # whoever asks for it again is told
                build_all(self.standing().list_to_judge(task.id), task, self.target, variants)

        with ThreadPoolExecutor(1) as pool:
            pool.submit(build)
            yield

    def _make_judge(self, task: Task, seed: int, scratch: Scratch) -> Judge:
        return Judge(
            task, self.target, scratch=scratch, workdir=scratch.new("run"), seed=seed, progress=self.observer.stage,
            baselines=self.config.baselines, peaks_cache=self.config.cache, profile=False, quick=self.quick,
            memory_gb=self.config.judge_memory_gb, timed_on=self.config.timed_on,
        )  # fmt: skip

    def _make_row(self, task: Task, seed: int) -> TaskRow:
        return TaskRow(
            task_id=task.id,
            environment=self.environment,
            seed=seed,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def _judge_all(self, task: Task, executor: LocalExecutor) -> None:
        waiting = self.standing().list_to_judge(task.id)
        for start in range(0, len(waiting), BATCH_SIZE):
            self._judge_candidates(executor, waiting[start : start + BATCH_SIZE], "search")
        while (candidate := self.standing().choose_to_confirm(task.id)) is not None:
            self._record("confirmation", executor.confirm(candidate))

    def _judge_candidates(
        self, executor: LocalExecutor, candidates: Sequence[Candidate], phase: Pass
    ) -> None:
        for result in executor.run(candidates):
            self._record(phase, result)

    def _record(self, phase: Pass, result: Result) -> None:
        """Append a result to the journal, without paths of built libraries: they mean nothing elsewhere."""
        builds = tuple(b.model_copy(update={"library": ""}) for b in result.builds)
        self.journal.append(ResultRow(phase=phase, result=result.model_copy(update={"builds": builds})))
        results = [r.result for r in self.standing().results]
        speeds = [r.speedup for r in results if r.speedup is not None and r.task_id == result.task_id]
        best = max(speeds, key=find_worth, default=None)
        self.observer.evaluated(
            len({r.candidate_id for r in results}), sum(len(ids) for ids in self.selection.values()), result.status,
            f"{describe_ratio(best)} {best.baseline}" if best is not None else "",
            self.deadline - time.monotonic() if self.deadline is not None else None,
        )  # fmt: skip


def select_candidates(bundle: Bundle, only: Sequence[str]) -> dict[str, frozenset[str]]:
    """Select task id → ids of the candidates to judge. Raises BundleError for a name that is nothing in the bundle."""
    for name in only:
        if not any(name in (t.id, t.name) for t in bundle.tasks.values()) and name not in bundle.candidates:
            names = ", ".join(t.name for t in bundle.tasks.values())
            raise BundleError(f"--only {name}: no task and no candidate of the bundle; its tasks are {names}")
    selection: dict[str, frozenset[str]] = {}
    for task in bundle.tasks.values():
        takes_all = not only or task.id in only or task.name in only
        ids = frozenset(c.id for c in bundle.candidates_of(task.id) if takes_all or c.id in only)
        if ids or takes_all:
            selection[task.id] = ids
    return selection


def find_target(name: str, config: Config) -> Target:
    """Make the bundle's target, whose tools must be there. Raises ToolchainError."""
    target: Target = plugins.load("targets", name)(config.cache, config.compiler, config.threads)
    if target.language == "cuda" and gpu() is None:
        raise ToolchainError(
            "the bundle is for CUDA and there is no NVIDIA GPU here: run it on a machine with one"
        )
    return target


def keep_copy(bundle: Bundle, out: Path) -> None:
    """Write the bundle beside its results, so that they can be imported by themselves. Raises BundleError."""
    if not (out / COPY).exists():
        write_files(out / COPY, bundle.files)
    elif not same_seal(read_bundle(out / COPY).root, bundle.root):
        raise BundleError(f"{out} holds results of another bundle: name another --out")
