"""A judge that is open on one task, and the run in the archive that its results belong to.

In: candidates of authors. Out: results, each in the archive before it is handed back. A win is judged again
in fresh processes and must pass the sanitizers, as in a search. The run begins with the first candidate and
is finished when the session is closed, so that `warpsmith report` and `warpsmith export` know it like any
other.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable
from typing import Literal

from ..agents.base import Attempt
from ..archive.store import Archive
from ..config import Config
from ..executors.local import LocalExecutor
from ..judge.judge import Judge
from ..pipeline import best_of
from ..pipeline.live import LiveActivity, tell_best
from ..processes.buffers import Scratch
from ..progress import counted
from ..records import TOO_BUSY, Candidate, Result, RunSummary, Task
from ..records.result import NO_WIN_QUARANTINED
from ..search.confirmation import describe_best, explain_noise
from ..targets.target import Target
from ..wording import label

IDLE = "waiting for a submission"


class AuthorSession:
    """Opened when made; `scratch` is closed with it. Raises TaskError, ToolchainError, JudgeError."""

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
        self.live = LiveActivity(archive, "authors", task.name, target.name)
        self.live.begin()
        self.judge = Judge(
            task, target, scratch=self._scratch, workdir=self._scratch.new("session"), seed=self._seed,
            progress=self._report_stage, baselines=config.baselines, peaks_cache=config.cache,
            memory_gb=config.judge_memory_gb, timed_on=config.timed_on,
        )  # fmt: skip
        self.judge.moved = self.live.move
        try:
            self.judge.open()
        except BaseException as error:
            self._release(error)
            raise
        self._executor = LocalExecutor(self.judge)
        self.live.change(stage=IDLE)

    def judge_candidate(self, candidate: Candidate) -> Result:
        """The verdict on a candidate: kept, and confirmed when it is a win."""
        self._begin()
        self._tell_author(candidate)
        self._report_stage("building, verifying and timing the candidate")
        result = next(iter(self._executor.run([candidate])))
        self._archive.add_result(self.run_id, candidate, result)
        if result.win:
            result = self._executor.confirm(candidate)
            keep = self._archive.add_confirmation if result.status == "ok" else self._archive.add_result
            keep(self.run_id, candidate, result)
        self._attempts.append(Attempt(candidate, result))
        self._note_limit()  # which may have been measured again
        self._tell_outcome(candidate, result)
        return result.restate(self.judge.limit)

    def close(self) -> None:
        """Finish the run and end every process. Safe to call twice."""
        run_id, self.run_id = self.run_id, ""
        try:
            if run_id:
                self._archive.finish_run(self._summary(run_id))
        finally:
            self._release()

    def _release(self, error: BaseException | None = None) -> None:
        self.judge.close()
        self._scratch.close()
        self.live.finish(f"closed after {counted(len(self._attempts), 'submission')}")
        self.live.close(error)

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
        best = max((a for a in self._attempts if a.speedup > 0), key=_rank, default=None)
        values = tell_best(best) if best is not None else {}
        outcomes = dict(Counter(a.result.status for a in self._attempts))
        self.live.change(stage=IDLE, judged=len(self._attempts), outcomes=outcomes, **values)

    def _begin(self) -> None:
        if self.run_id:
            return
        judge, self.run_id = self.judge, secrets.token_hex(6)
        self.live.name_run(self.run_id)
        settings = {"authors": True, "config": self._config.model_dump(mode="json")}
        self._archive.begin_run(
            self.run_id, self.task, self.target.name, self._seed, settings, judge.environment
        )
        self._archive.note_run(self.run_id, admission=judge.admission)
        self._note_limit()

    def _note_limit(self) -> None:
        self._archive.note_run(self.run_id, tuple(self.judge.baselines.values()), self.judge.limit)

    def _summary(self, run_id: str) -> RunSummary:
        judge, attempts = self.judge, self._attempts
        best = max((a for a in attempts if a.speedup > 0), key=_rank, default=None)
        won = best is not None and best.result.win and judge.admission.admitted
        status: Literal["win", "no-win", "too-busy", "failed"]
        status = "win" if won else "no-win" if best is not None else "failed"
        reason = "" if won else _why_not(best, attempts, judge.admission.admitted)
        if (
            best is not None
            and not won
            and judge.admission.admitted
            and (noise := explain_noise(best.result))
        ):
            status, reason = TOO_BUSY, f"the machine was too busy to confirm anything: {noise}"
        return RunSummary(
            run_id=run_id, task=self.task.name, target=self.target.name, status=status, reason=reason,
            best=best_of(best.restate(judge.limit)) if best is not None else None,
            baselines={b.name: b.median_us for b in judge.baselines.values() if b.ok},
            evaluations=len(attempts), stages=dict(Counter(a.result.status for a in attempts)),
            seconds=round(time.monotonic() - self._started, 2),
            seconds_by_stage={k: round(v, 3) for k, v in judge.seconds.items()},
            limit_us=judge.limit.seconds * 1e6, peaks=judge.limit.peaks, seed=self._seed, stopped="its authors handed in no more",
            admitted=judge.admission.admitted, hardware=judge.environment.hardware,
        )  # fmt: skip


def _rank(attempt: Attempt) -> tuple[bool, float, float]:
    return attempt.result.confirmed, *attempt.rank


def _why_not(best: Attempt | None, attempts: list[Attempt], admitted: bool) -> str:
    if best is None:
        why = Counter(a.result.reason for a in attempts).most_common(1)
        return f"nothing valid was handed in: {why[0][0]}" if why else "nothing was handed in"
    if not admitted:
        return NO_WIN_QUARANTINED
    return "no candidate is faster than the best baseline with its interval above 1"
