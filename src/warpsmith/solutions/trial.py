"""One solution under trial: its processes, how it comes by the reference's parameters, and its verification.

In: the solution's text and what the judge knows of the task. Out: `Check`s and the first `Fault`. Each variant
has a process of its own. The module is constructed under the seed under which the reference was, then takes the
reference's parameters over by name; where it lacks a name that the outputs depend on, it keeps what the seed
gave it, as KernelBench has it, and every input is judged with those parameters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from ..errors import WarpsmithError
from ..judge.correctness.evidence import Case, Evidence, Expected
from ..judge.correctness.input_families import OWN
from ..judge.timing.interleaved_rounds import ClocksDisagree
from ..processes.buffers import Scratch
from ..processes.worker import WorkerDied, WorkerFailed, WorkerTimeout
from ..records import Check, Task
from .checking import Checker, make_failed_check, with_parameters
from .client import LOAD_SECONDS, Forged, SolutionProcess, Starter
from .source import find_own_overrides

Parameters = Literal["none", "name", "seed"]
CHEATS = frozenset({"forged", "clock", "floor", "tampered", "output-late"})  # not a measurement: invalid
LOOKED_AT = 1 << 22  # elements of each output on inputs other than the task's own
AHEAD_BYTES = 1 << 28  # of inputs, up to which the next case is worked out while one is tried
VALUE_RULES = frozenset({"budget", "rms-budget", "exact", "non-finite"})


@dataclass(frozen=True)
class Fault:
    rule: str
    detail: str
    where: str = ""  # variant and family

    @property
    def reason(self) -> str:
        return f"{self.rule}{f' ({self.where})' if self.where else ''}: {self.detail}"

    @property
    def cheats(self) -> bool:
        return self.rule in CHEATS


@dataclass
class Found:
    """The findings of a verification."""

    checks: list[Check] = field(default_factory=list)
    fault: Fault | None = None
    notes: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # held-out variants that it raised an error at
    deterministic: bool = True
    other_strides: bool = False  # dense outputs in another order of dimensions than the reference's
    contiguous_only: bool = (
        False  # wrong, or an error, on inputs that are not contiguous, which the reference takes
    )


@dataclass(frozen=True)
class Context:
    """The context that every trial on a task shares. `weights`: the seed of the parameters that solutions are built with;
    `done`: told of each case that has been tried; `takes_strided`: whether the reference takes inputs that are not contiguous."""

    task: Task
    evidence: Evidence
    starter: Starter
    scratch: Scratch
    init: dict[str, dict[str, Any]]  # variant → the task's constructor arguments, encoded
    weights: int
    done: Callable[[Case], None]
    takes_strided: Callable[[], bool]


class Trial:
    def __init__(
        self, context: Context, name: str, text: str, folder: Path, parameters: Parameters | None = None
    ) -> None:
        self.context, self.name, self.text, self.folder = context, name, text, folder
        self.parameters: Parameters = parameters or "name"
        self._decided = parameters is not None
        self.checker = Checker(context.task, context.evidence)
        self.isolation = ""

    def start(self, variant: str) -> SolutionProcess:
        """A process with the module constructed at a variant's shapes. Raises what `Worker.call` raises."""
        process, answer = self._load(variant)
        if not self._decided:
            self._decided = True
            state = any(i.role != "input" and not i.data for i in self.context.task.graph.inputs)
            self.parameters = ("seed" if answer["unnamed"] else "name") if state else "none"
            if self.parameters == "seed":
                process.close()
                process, answer = self._load(variant)
        self.isolation = str(answer.get("isolation", ""))
        self.checker = Checker(self.context.task, self.context.evidence, [str(t) for t in answer["absent"]])
        return process

    def _load(self, variant: str) -> tuple[SolutionProcess, dict[str, Any]]:
        chosen = self.context.task.variant(variant)
        process = self.context.starter.fork(self.folder)
        try:
            answer = process.worker.call(
                "load", LOAD_SECONDS, text=self.text, name=self.name, variant=variant,
                overrides=find_own_overrides(self.text, chosen.overrides), init=self.context.init[variant],
                seed=self.context.weights, copy=self.parameters != "seed",
            )  # fmt: skip
            if not isinstance(answer.get("unnamed"), list) or not isinstance(answer.get("absent"), list):
                raise WorkerDied("the solution's process sent a malformed answer")
        except WarpsmithError:
            process.close()
            raise
        return process, answer

    def values(self, case: Case) -> Path:
        """A values file for the case: with the parameters that the module was constructed with, if it keeps
        those."""
        path = self.context.evidence.values(case)
        if self.parameters != "seed":
            return path
        built = self.context.evidence.values(Case(case.variant, OWN, self.context.weights))
        variant = self.context.task.variant(case.variant)
        return with_parameters(path, built, variant, self.context.scratch.new("composed"))

    def verify(self, draw_cases: Callable[[], Sequence[Case]]) -> Found:
        """Every case, the main variant's first. Cases are drawn once the module has been constructed."""
        measured, main = Found(), self.context.task.main.name
        process = self._begin(main, measured)
        if process is None:
            return measured
        cases = draw_cases()
        for variant in dict.fromkeys([main, *(c.variant for c in cases)]):
            if variant != main:
                process = self._begin(variant, measured)
            if process is not None:
                with process.worker:
                    self._variant(process, [c for c in cases if c.variant == variant], measured)
                    if variant == main and measured.fault is None and self.context.takes_strided():
                        self._try_strided(process, cases[0], measured)
            if measured.fault is not None:
                break
        if self.checker.absent:
            measured.notes.append(
                f"it keeps no {', '.join(sorted(self.checker.absent))}, which the reference updates"
            )
        return measured

    def _begin(self, variant: str, found: Found) -> SolutionProcess | None:
        try:
            return self.start(variant)
        except (WarpsmithError, OSError) as error:
            self._record_fault(fault_of(error, variant), variant, found)
            return None

    def _record_fault(self, fault: Fault, variant: str, found: Found) -> None:
        """An error raised at a held-out shape, before any result, is a limit of the solution and no fault."""
        was_checked = any(c.variant == variant for c in found.checks)
        if fault.rule == "raised" and variant != self.context.task.main.name and not was_checked:
            found.refused.append(f"at the shapes of variant {variant} it raises: {fault.detail}")
        else:
            found.fault = fault

    def _variant(self, process: SolutionProcess, cases: Sequence[Case], found: Found) -> None:
        """Try all cases of a variant. Where memory allows, the next case is worked out while the judge waits for what the solution still writes."""
        upcoming, posed = iter(cases), deque[_Question | None]()

        def pose_next() -> None:
            posed.extend(self._pose(case) for case in islice(upcoming, 1))

        specs = [i.spec for c in cases[:1] for i in self.context.task.variant(c.variant).graph.inputs]
        has_room = sum(s.nbytes for s in specs) <= AHEAD_BYTES
        try:
            pose_next()
            while posed:
                question = posed.popleft()
                if question is not None:
                    fault = self._case(process, question, found, pose_next if has_room else lambda: None)
                    if fault is not None:
                        self._record_fault(fault, question.case.variant, found)
                        if found.fault is fault and all(c.ok for c in found.checks):
                            found.checks.append(make_failed_check(question.case, fault.rule, fault.detail))
                        return
                if not posed:
                    pose_next()
        finally:
            for unanswered in posed:
                if unanswered is not None:
                    unanswered.expected.remove()

    def _pose(self, case: Case) -> _Question | None:
        """None where these inputs cannot tell right from wrong."""
        values = self.values(case)
        expected = self.checker.truth(case, values, None if case.family == OWN else LOOKED_AT)
        return None if expected is None else _Question(case, values, expected)

    def _case(
        self, process: SolutionProcess, question: _Question, found: Found, meanwhile: Callable[[], None]
    ) -> Fault | None:
        case, values, expected = question.case, question.values, question.expected
        outputs: list[Path] = []
        try:
            for path in self._runs(process, values, meanwhile):
                outputs.append(path)
                check = self.checker.check(case, expected, path)
                if not check.ok or len(outputs) == 1:
                    found.checks.append(check)
                if not check.ok:
                    return Fault(check.rule, check.detail, f"{case.variant}, {case.family} inputs")
            found.deterministic &= self.checker.same(case.variant, *outputs)
            found.other_strides |= process.other_strides
        except _OfSolution as error:
            return fault_of(error.error, f"{case.variant}, {case.family} inputs")
        finally:
            expected.remove()
            for path in outputs:
                path.unlink(missing_ok=True)
            if self.parameters == "seed":
                values.unlink(missing_ok=True)
            self.context.starter.empty()
            self.context.done(case)
        return None

    def _try_strided(self, process: SolutionProcess, case: Case, found: Found) -> None:
        """Hand the inputs over as views that are not contiguous. What goes wrong then is a limit, but for tampering."""
        values = self.values(case)
        expected = self.checker.truth(case, values, LOOKED_AT)
        if expected is None:
            return
        try:
            path = process.run(values, strided=True)
            found.contiguous_only = not self.checker.check(case, expected, path).ok
            path.unlink(missing_ok=True)
        except (WarpsmithError, OSError) as error:
            fault = fault_of(error, f"{case.variant}, strided inputs")
            found.contiguous_only = True
            found.fault = fault if fault.cheats else None
        finally:
            expected.remove()
            if self.parameters == "seed":
                values.unlink(missing_ok=True)
            self.context.starter.empty()

    def _runs(self, process: SolutionProcess, values: Path, meanwhile: Callable[[], None]) -> Iterator[Path]:
        """Twice on the same values, at other addresses. `meanwhile`: done once, after the first call. That of each case is the one
        that may show itself to be written late: its copy in the second call would be wrong in any case.
        """
        for first in (True, False):
            with _blame_solution():
                process.call(values, wait=first)
            if first:
                meanwhile()
            with _blame_solution():
                path = process.collect()
            yield path


@dataclass(frozen=True)
class _Question:
    """A case, its values, and what the reference makes of them."""

    case: Case
    values: Path
    expected: Expected


@contextmanager
def _blame_solution() -> Iterator[None]:
    """Blame the solution for what goes wrong here."""
    try:
        yield
    except (WarpsmithError, OSError) as error:
        raise _OfSolution(error) from error


class _OfSolution(Exception):
    """Keeps the failures of the solution's process apart from those of trusted ones."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def fault_of(error: Exception, where: str) -> Fault:
    """Explain an error of the solution's process."""
    text = str(error)
    if isinstance(error, Forged):
        return Fault("forged", text, where)
    if isinstance(error, ClocksDisagree):
        return Fault("clock", text, where)
    if isinstance(error, WorkerTimeout):
        return Fault("timeout", text.replace("the candidate", "the solution"), where)
    if isinstance(error, WorkerFailed):
        rule, colon, detail = text.partition(": ")
        if error.kind in ("OutputRefused", "Tampered") and colon:
            return Fault(rule, detail, where)
        return Fault("raised", text, where)
    return Fault("crashed", text.replace("the candidate", "the solution"), where)


__all__ = ["CHEATS", "VALUE_RULES", "Context", "Fault", "Found", "Parameters", "Trial", "fault_of"]
