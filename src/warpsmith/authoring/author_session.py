"""A judge that is open on one task, and the run in the archive that its results belong to.

In: candidates of authors. Out: results, each in the archive before it is handed back. Screening opens the judge as far as it needs:
workers, inputs, eager. The first verdict compiles and times the other baselines. A win is judged again in fresh processes and must pass
the sanitizers, as in a search. The run begins with the first candidate and is finished when the session is closed, so that
`warpsmith report` and `warpsmith export` know it like any other.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from .. import machine
from ..agents.base import Attempt
from ..archive.store import Archive
from ..config import Config
from ..executors.local import LocalExecutor
from ..judge.device.device_lock import processor_lock_file
from ..judge.screening import ScreeningJudge
from ..pipeline import best_of
from ..pipeline.live import LiveActivity, tell_best
from ..processes.buffers import Scratch
from ..profile.observation import Observation
from ..profile.observe import observe_counters
from ..progress import counted
from ..records import TOO_BUSY, Candidate, Region, Result, RunSummary, Task
from ..records.result import NO_WIN_QUARANTINED
from ..search.confirmation import describe_best, explain_noise
from ..solutions.judge import SolutionJudge
from ..solutions.verdict import SolutionVerdict
from ..targets.target import Target, unit_device
from ..wording import label

IDLE = "waiting for a submission"
MAX_REMEMBERED = 256  # verdicts on solutions
LOOK_S = 0.3  # for other programs before a batch is screened
BUSY = "other programs ran on this machine meanwhile: times may be longer than they are alone"


class AuthorSession:
    """Nothing is opened before it is needed; `scratch` is closed with it. Raises TaskError, ToolchainError, JudgeError."""

    def __init__(
        self, task: Task, target: Target, config: Config, archive: Archive, scratch: Scratch,
        progress: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.task, self.target, self._config, self._archive = task, target, config, archive
        self._progress = progress
        self.run_id = ""
        self._started = time.monotonic()
        self._attempts: list[Attempt] = []
        self._authors: tuple[str, ...] = ()
        self._seed = secrets.randbits(31)  # nobody can write a kernel for it
        self._scratch = scratch
        self._opened: Literal["", "screening", "judging"] = ""
        self._trouble: BaseException | None = None  # why the judge did not open
        self.live = LiveActivity(archive, "authors", task.name, target.name)
        self.live.begin()
        self._settings: dict[str, Any] = {
            "scratch": self._scratch, "progress": self._report_stage, "baselines": config.baselines,
            "peaks_cache": config.cache, "memory_gb": config.judge_memory_gb, "timed_on": config.timed_on,
            "lock": processor_lock_file() if unit_device(target) == "cpu" else None,
        }  # fmt: skip
        workdir = self._scratch.new("session")
        self.judge = ScreeningJudge(task, target, workdir=workdir, seed=self._seed, **self._settings)
        self._solution_judge: SolutionJudge | None = None
        self._solution_verdicts: dict[tuple[str, bool], SolutionVerdict] = {}
        self.judge.moved = self.live.move
        self._executor = LocalExecutor(self.judge)
        self.live.change(stage=IDLE)

    def open_for_screening(self) -> None:
        """Open the judge as far as screening and a profile need it."""
        if not self._opened:
            self._open(self.judge.begin_with_eager)
            self._opened = "screening"

    def prepare_regions(self, regions: Sequence[Region]) -> None:
        """Have what screening units of these regions needs, ahead of the first of them."""
        self.open_for_screening()
        self._report_stage("computing what is right for units of the first regions")
        self.judge.compute_truth(regions)

    def screen(self, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, Result]]:
        """Yield which candidates are worth a verdict, each as soon as it is known and kept."""
        self.open_for_screening()
        self._begin()
        self._report_stage(f"building {counted(len(candidates), 'candidate')}")
        self.judge.build_for_screening(candidates)
        # On a CPU one is verified at a time anyway: its result need not wait for the others'.
        at_once = 1 if self.judge.device == "cpu" else len(candidates)
        busy = "" if self._is_quiet() else BUSY
        for start in range(0, len(candidates), max(1, at_once)):
            batch = candidates[start : start + at_once]
            self._report_stage(f"screening {start + 1} of {len(candidates)}")
            for candidate, screened in zip(batch, self._executor.screen(batch), strict=True):
                result = note_busy(screened, busy)
                self._archive.add_result(self.run_id, candidate, result)
                self._attempts.append(Attempt(candidate, result))
                self._tell_author(candidate)
                self._tell_outcome(candidate, result)
                yield candidate, result.restate(self.judge.limit)

    def judge_candidate(self, candidate: Candidate, known: Result | None = None) -> Result:
        """The verdict on a candidate: kept, and confirmed when it is a win. `known`: a win that waits for its confirmation only."""
        self._open_for_judging()
        self._begin()
        self._tell_author(candidate)
        result = known
        if result is None:
            self._report_stage("building, verifying and timing the candidate")
            result = next(iter(self._executor.run([candidate])))
            self._archive.add_result(self.run_id, candidate, result)
        if result.win:
            self._report_stage("confirming the win in fresh processes")
            result = self._executor.confirm(candidate)
            keep = self._archive.add_confirmation if result.status == "ok" else self._archive.add_result
            keep(self.run_id, candidate, result)
        self._attempts.append(Attempt(candidate, result))
        self._note_task()  # the limit may have been measured again
        self._tell_outcome(candidate, result)
        return result.restate(self.judge.limit)

    def judge_solution(self, source: Path, quick: bool) -> SolutionVerdict:
        """The verdict on a `ModelNew`; `quick`: fewer families of inputs and rounds of timing. The same text is judged once: who asks
        again and again does not wait for lucky times.
        """
        if self._solution_judge is None:
            self._solution_judge = self._open_for_solutions()
        key = (source.read_text(encoding="utf-8"), quick)
        if key not in self._solution_verdicts:
            self._solution_judge.quick = quick
            verdict = self._solution_judge.judge(source)
            self.live.say(f"a solution: {verdict.verdict}, label {verdict.label}"[:300])
            if len(self._solution_verdicts) >= MAX_REMEMBERED:
                self._solution_verdicts.pop(next(iter(self._solution_verdicts)))
            self._solution_verdicts[key] = verdict
        self.live.change(stage=IDLE)
        return self._solution_verdicts[key]

    def _open_for_solutions(self) -> SolutionJudge:
        judge = SolutionJudge(
            self.task, self.target, workdir=self._scratch.new("solutions"), seed=secrets.randbits(31), quick=True, profile=False,
            **self._settings,
        )  # fmt: skip
        try:
            self._open(judge.open)
        except BaseException:
            judge.close()
            raise
        return judge

    def observe_counters(self, candidate: Candidate) -> list[Observation]:
        """Read the counters of the hardware for each unit; on a GPU only."""
        self.open_for_screening()
        observed = observe_counters(
            candidate,
            self.task,
            self.target,
            self.judge.evidence,
            self._scratch,
            self._config.cache,
            self._seed,
        )
        with self.judge.device_lock.hold_exclusive():
            return list(observed)

    def close(self) -> None:
        """Finish the run and end every process. Safe to call twice."""
        run_id, self.run_id = self.run_id, ""
        try:
            if run_id:
                self._archive.finish_run(self._summary(run_id))
        finally:
            if self._solution_judge is not None:
                self._solution_judge.close()
            self.judge.close()
            self._scratch.close()
            if self._trouble is None:
                self.live.finish(f"closed after {counted(len(self._attempts), 'submission')}")
            self.live.close(self._trouble)

    @property
    def admitted(self) -> bool:
        """False only where a wrong answer was seen to pass; screening does not look."""
        admission = getattr(self.judge, "admission", None)
        return admission is None or admission.admitted

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why the task is quarantined; empty where it is not."""
        return () if self.admitted else self.judge.admission.reasons

    def _report_stage(self, text: str) -> None:
        self.live.change(stage=text)
        self._progress(text)

    def _tell_author(self, candidate: Candidate) -> None:
        self._authors = tuple(dict.fromkeys([*self._authors, candidate.lineage.model]))
        self.live.change(authors=self._authors)

    def _tell_outcome(self, candidate: Candidate, result: Result) -> None:
        """Tell who watches how a submission ended, and the best so far."""
        how = describe_best(result) if result.status == "ok" else result.reason
        self.live.say(
            f"{candidate.lineage.model}: {label(candidate)}: {result.status}{f', {how}' if how else ''}"[:300]
        )
        judged = [a for a in self._attempts if not a.screened]
        best = max((a for a in judged if a.speedup > 0), key=_rank, default=None)
        values = tell_best(best) if best is not None else {}
        outcomes = dict(Counter(a.result.status for a in self._attempts))
        screened = len(self._attempts) - len(judged)
        self.live.change(stage=IDLE, judged=len(judged), screened=screened, outcomes=outcomes, **values)

    def _is_quiet(self) -> bool:
        """Look for other programs for a moment; nothing of this session runs meanwhile."""
        judge = self.judge
        return machine.wait_until_quiet(LOOK_S, judge.environment.threads, judge.device)

    def _open(self, open_judge: Callable[[], None]) -> None:
        try:
            open_judge()
        except BaseException as error:
            self._trouble = error
            raise

    def _open_for_judging(self) -> None:
        if self._opened == "judging":
            return
        self._open(self.judge.complete if self._opened == "screening" else self.judge.open)
        self._opened = "judging"
        if self.run_id:
            self._note_task()

    def _begin(self) -> None:
        if self.run_id:
            return
        judge, self.run_id = self.judge, secrets.token_hex(6)
        self.live.name_run(self.run_id)
        settings = {"authors": True, "config": self._config.model_dump(mode="json")}
        self._archive.begin_run(
            self.run_id, self.task, self.target.name, self._seed, settings, judge.environment
        )
        self._note_task()

    def _note_task(self) -> None:
        admission = self.judge.admission if self._opened == "judging" else None
        baselines = tuple(self.judge.baselines.values())
        self._archive.note_run(self.run_id, baselines, self.judge.limit, admission)

    def _summary(self, run_id: str) -> RunSummary:
        judge, attempts = self.judge, self._attempts
        judged = [a for a in attempts if not a.screened]
        best = max((a for a in judged if a.speedup > 0), key=_rank, default=None)
        won = best is not None and best.result.win and self.admitted
        status: Literal["win", "no-win", "too-busy", "failed"]
        screened = any(a.screened for a in attempts)
        status = "win" if won else "no-win" if best is not None or screened else "failed"
        reason = "" if won else _why_not(best, attempts, self.admitted)
        if best is not None and not won and self.admitted and (noise := explain_noise(best.result)):
            status, reason = TOO_BUSY, f"the machine was too busy to confirm anything: {noise}"
        return RunSummary(
            run_id=run_id, task=self.task.name, target=self.target.name, status=status, reason=reason,
            best=best_of(best.restate(judge.limit)) if best is not None else None,
            baselines={b.name: b.median_us for b in judge.baselines.values() if b.ok},
            evaluations=len(judged), screened=len(attempts) - len(judged),
            stages=dict(Counter(a.result.status for a in attempts)),
            seconds=round(time.monotonic() - self._started, 2),
            seconds_by_stage={k: round(v, 3) for k, v in judge.seconds.items()},
            limit_us=judge.limit.seconds * 1e6, peaks=judge.limit.peaks, seed=self._seed, stopped="its authors handed in no more",
            admitted=self.admitted, hardware=judge.environment.hardware,
        )  # fmt: skip


def note_busy(result: Result, busy: str) -> Result:
    """Say with a screened time that other programs ran."""
    if not busy or result.timing is None:
        return result
    return result.model_copy(update={"timing": result.timing.model_copy(update={"busy": busy})})


def _rank(attempt: Attempt) -> tuple[bool, float, float]:
    return attempt.result.confirmed, *attempt.rank


def _why_not(best: Attempt | None, attempts: list[Attempt], admitted: bool) -> str:
    if best is None and any(a.screened for a in attempts):
        return "candidates were screened; nobody asked for a verdict that succeeded"
    if best is None:
        why = Counter(a.result.reason for a in attempts).most_common(1)
        return f"nothing valid was handed in: {why[0][0]}" if why else "nothing was handed in"
    if not admitted:
        return NO_WIN_QUARANTINED
    return "no candidate is faster than the best baseline with its interval above 1"
