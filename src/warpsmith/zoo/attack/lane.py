"""A lane: the process that judges composed candidates, one after the other. It is started as a worker.

In (requests): `start` with the settings, then `judge` an index. Out: the fields of an `AttackRow`. One judge is opened
for each operator and form, and kept until another one is asked for. The judge is the quick one; what would be called a gain is
judged again by the full one, with fresh seeds, as every claim is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ...config import Config
from ...errors import WarpsmithError
from ...judge.judge import Judge
from ...processes.buffers import Scratch
from ...processes.worker import serve
from ...records import Candidate, Result, Task
from ...solutions.judge import SolutionJudge
from ...solutions.verdict import SolutionVerdict, make_unit_verdict
from ...targets.front_matter import unit_from_source
from ...tasks.load import load_task
from ...tasks.regions import make_region
from ..table import target_for
from .composing import Composed, compose, compose_twin
from .operators import load_operators
from .outcome import Answer, is_suspect, make_row, row_fields

BASELINES = ("eager",)
REASON_LENGTH = 300
BUSY_ATTEMPTS = 3  # at a measurement of what may gain


class SolutionSession:
    """A judge of `ModelNew` files, opened on one operator."""

    def __init__(self, task: Task, stack: ExitStack, scratch: Scratch, **options: Any) -> None:
        self.folder = scratch.new("candidates")
        self.folder.mkdir()
        self.judge = stack.enter_context(SolutionJudge(task, scratch=scratch, quick=True, **options))
        self.judge.open()

    def ask(self, candidate: Composed) -> Answer:
        path = self.folder / "solution.py"
        path.write_text(candidate.text)
        return _answer(self.judge.judge(path))

    def confirm(self, candidate: Composed) -> Answer:
        """Ask again with fresh seeds, all families of inputs and as many rounds as a claim takes."""
        self.judge.quick = False
        try:
            return self.ask(candidate)
        finally:
            self.judge.quick = True


class UnitSession:
    """A judge of units, opened on one operator."""

    def __init__(self, task: Task, stack: ExitStack, scratch: Scratch, **options: Any) -> None:
        self.task, self.target = task, options["target"]
        self.judge = stack.enter_context(Judge(task, scratch=scratch, quick=False, **options))
        self.judge.open()

    def ask(self, candidate: Composed) -> Answer:
        return self._answer(next(iter(self.judge.evaluate([self._as_unit(candidate)]))))

    def confirm(self, candidate: Composed) -> Answer:
        return self._answer(self.judge.confirm(self._as_unit(candidate)))

    def _answer(self, result: Result) -> Answer:
        if result.status == "error":
            return Answer("error", reason=result.reason[:REASON_LENGTH])
        return _answer(make_unit_verdict("", self.task.name, result, ""))

    def _as_unit(self, candidate: Composed) -> Candidate:
        region = make_region(self.task.graph, [n.name for n in self.task.graph.nodes])
        unit = unit_from_source(candidate.text, region).model_copy(update={"language": self.target.language})
        return Candidate(task_id=self.task.id, target=self.target.name, units=(unit,))


class Lane:
    def __init__(self) -> None:
        self._stack = ExitStack()
        self._opened: tuple[str, bool] | None = None
        self._session: SolutionSession | UnitSession

    def start(
        self, config: dict[str, Any], seed: int, target: str, processors: Sequence[int]
    ) -> dict[str, Any]:
        if processors:
            os.sched_setaffinity(0, processors)
        self.config, self.seed, self.target = Config.model_validate(config), seed, target
        return {}

    def judge(self, index: int) -> dict[str, Any]:
        candidate = compose(self.seed, index, self.target)
        answer = self._ask(candidate, confirm=False)
        confirmed = twin = None
        if is_suspect(candidate, answer):
            confirmed = self._ask(candidate, confirm=True)
            if confirmed.gains:
                twin = self._ask(compose_twin(candidate), confirm=True)
        return row_fields(make_row(candidate, answer, confirmed, twin))

    def _ask(self, candidate: Composed, confirm: bool) -> Answer:
        """Ask again where a hostile candidate may gain and the machine was too busy for a claim."""
        for _ in range(BUSY_ATTEMPTS - 1):
            answer = self._try(candidate, confirm)
            if candidate.honest or not answer.unclaimed:
                return answer
        return self._try(candidate, confirm)

    def _try(self, candidate: Composed, confirm: bool) -> Answer:
        """Ask the judge; one that fails is opened anew, once."""
        start, reason = time.monotonic(), ""
        for _ in range(2):
            try:
                session = self._open(candidate)
                start = time.monotonic()
                answer = session.confirm(candidate) if confirm else session.ask(candidate)
                return _with_seconds(answer, time.monotonic() - start)
            except (WarpsmithError, OSError) as error:
                reason = str(error)
                self.close()
        return Answer("error", reason=reason[:REASON_LENGTH], seconds=time.monotonic() - start)

    def _open(self, candidate: Composed) -> SolutionSession | UnitSession:
        key = candidate.operator, candidate.form == "unit"
        if self._opened != key:
            self.close()
            file = next(o.task_file for o in load_operators() if o.name == candidate.operator)
            scratch = self._stack.enter_context(Scratch())
            with _closing_on_error(self):
                task = load_task(str(file), scratch=scratch, timeout=self.config.load_timeout)
                session = UnitSession if candidate.form == "unit" else SolutionSession
                self._session = session(
                    task, self._stack, scratch, target=target_for(self.target, self.config),
                    workdir=scratch.new("attack"), seed=self.seed, baselines=BASELINES, profile=False,
                    peaks_cache=Path(self.config.cache),
                )  # fmt: skip
            self._opened = key
        return self._session

    def close(self) -> None:
        self._opened = None
        self._stack.close()

    def handlers(self) -> dict[str, Any]:
        return {"start": self.start, "judge": self.judge, "close": self.close}


@contextmanager
def _closing_on_error(lane: Lane) -> Iterator[None]:
    try:
        yield
    except BaseException:
        lane.close()
        raise


def _answer(verdict: SolutionVerdict) -> Answer:
    best = verdict.speedup.get("best")
    return Answer(
        verdict.verdict, verdict.rule, "; ".join(verdict.reasons)[:REASON_LENGTH], verdict.label,
        best.low if best else 0.0, best.high if best else 0.0,
    )  # fmt: skip


def _with_seconds(answer: Answer, seconds: float) -> Answer:
    return Answer(**{**vars(answer), "seconds": seconds})


if __name__ == "__main__":
    serve(Lane().handlers())
