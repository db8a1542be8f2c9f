"""A check of a task says what it does, ends within its time, and says what the time did not suffice for."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from warpsmith.errors import JudgeError, TaskError
from warpsmith.judge.admission.admission import UNDECIDED, Trials, admit
from warpsmith.judge.admission.time_bound import TimeBound
from warpsmith.judge.correctness.plan import ADMISSION
from warpsmith.judge.task_check import MODULE_UNCHECKED, TaskCheck
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Admission
from warpsmith.targets.cpu import CpuTarget
from warpsmith.tasks.load import load_task

TASK = """
import time
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        {before}
        return torch.tanh(x * 2.0 + 1.0)
def get_inputs():
    {inputs}
    return [torch.rand(16, 32)]
"""
# torch has no memory behind its tensors while a task is exported.
FOR_REAL = "if type(torch.empty(1)) is torch.Tensor: {}"


class Clock:
    """Time goes by at each look."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def check(
    folder: Path,
    bound: TimeBound | None = None,
    *,
    before: str = "pass",
    inputs: str = "pass",
    text: str = TASK,
) -> tuple[Admission, list[str]]:
    """Of a task whose forward, or get_inputs, begins with a statement. Also what was said."""
    (folder / "task.py").write_text(text.format(before=before, inputs=inputs))
    said: list[str] = []
    with Scratch() as scratch:
        task = load_task(str(folder / "task.py"), scratch=scratch)
        target = CpuTarget(folder / "cache", threads=2)
        with TaskCheck(
            task, target, scratch=scratch, workdir=folder / "work", seed=3, progress=said.append
        ) as checked:
            return checked.check(bound), said


def test_a_check_says_its_steps_and_compares_the_module(tmp_path: Path) -> None:
    admission, said = check(tmp_path, TimeBound(600.0))
    assert admission.admitted
    assert admission.unchecked == ()
    assert [text.partition(" (")[0] for text in said] == [
        "starting the reference", "trying wrong answers on normal inputs, 1 of 12",
        "comparing the module with its exported graph",
    ]  # fmt: skip
    assert all("of 10m" in text for text in said)


def test_a_module_that_is_not_its_graph_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="the exported graph and the module disagree"):
        check(tmp_path, before=FOR_REAL.format("x = x + 1"))


def test_a_module_that_counts_its_calls_is_compared_after_one(tmp_path: Path) -> None:
    """BatchNorm in training changes its running mean and variance with each call, and both are outputs of the graph."""
    norm = "self.norm = torch.nn.BatchNorm1d(32)"
    init = f"def __init__(self):\n        super().__init__()\n        {norm}\n    def forward(self, x):"
    text = TASK.replace("def forward(self, x):", init).replace("torch.tanh(x", "torch.tanh(self.norm(x)")
    admission, _ = check(tmp_path, text=text)
    assert admission.admitted
    assert admission.unchecked == ()


def test_a_module_that_fails_when_it_runs_is_named(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match=r"does not run.*out of luck"):
        check(tmp_path, before=FOR_REAL.format("raise ValueError('out of luck')"))


def test_a_module_that_hangs_is_stopped_and_left_unchecked(tmp_path: Path) -> None:
    admission, _ = check(tmp_path, TimeBound(8.0), before=FOR_REAL.format("time.sleep(600)"))
    assert admission.unchecked[-1] == MODULE_UNCHECKED


def test_inputs_that_hang_leave_everything_unchecked(tmp_path: Path) -> None:
    admission, _ = check(tmp_path, TimeBound(4.0), inputs=FOR_REAL.format("time.sleep(600)"))
    assert not admission.admitted
    assert admission.reasons == ()
    assert admission.unchecked == (
        f"any wrong answer on 12 of 12 input families ({', '.join(ADMISSION)})", MODULE_UNCHECKED,
    )  # fmt: skip


def test_nothing_is_begun_when_the_time_is_over(tmp_path: Path) -> None:
    admission, said = check(tmp_path, TimeBound(1.0, Clock(1.0)))
    assert said == ["starting the reference (2s of 1s)"]
    assert len(admission.unchecked) == 2


def answer(untried: tuple[str, ...] = (), **caught: str) -> dict[str, Any]:
    return {"valid": True, "caught": caught, "same": [], "untried": list(untried)}


def test_what_there_was_no_time_for_is_undecided_and_does_not_admit() -> None:
    trials = Trials("t")
    trials.add("normal", answer(zeros="budget", constant=""))
    trials.add("own", answer(("stale replay",), constant="budget"))
    admission = trials.cut_short(("own", "large"), 4)
    assert admission.mutants == {
        "zeros": "budget on normal", "constant": "budget on own", "stale replay": UNDECIDED,
    }  # fmt: skip
    assert not admission.admitted
    assert admission.unchecked == ("1 of 3 wrong answers on 2 of 4 input families (own, large)",)


class Worker:
    """A reference worker that is asked how much time there is."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers, self.asked = list(answers), []  # type: ignore[var-annotated]

    def call(self, op: str, timeout: float, **fields: Any) -> dict[str, Any]:
        self.asked.append((timeout, fields["seconds"]))
        return self.answers.pop(0)


class Evidence:
    def __init__(self, *answers: dict[str, Any]) -> None:
        self.workers = Worker(*answers)

    def values(self, case: object) -> str:
        return "values"


def task_of(folder: Path) -> Any:
    (folder / "task.py").write_text(TASK.format(before="pass", inputs="pass"))
    with Scratch() as scratch:
        return load_task(str(folder / "task.py"), scratch=scratch)


def test_the_worker_knows_how_much_time_there_is(tmp_path: Path) -> None:
    evidence: Any = Evidence(answer(zeros=""), answer(("zeros",)), answer(zeros="budget"))
    admission = admit(task_of(tmp_path), evidence, ("normal", "own", "large"), 1, bound=TimeBound(60.0))
    assert admission.unchecked == ("1 of 1 wrong answer on 2 of 3 input families (own, large)",)
    assert all(0 < seconds <= 60 < timeout for timeout, seconds in evidence.workers.asked)


def test_without_a_bound_nothing_is_cut_short(tmp_path: Path) -> None:
    evidence: Any = Evidence(answer(zeros=""), answer(zeros="budget"))
    admission = admit(task_of(tmp_path), evidence, ("normal", "own", "large"), 1)
    assert admission.admitted
    assert [seconds for _, seconds in evidence.workers.asked] == [None, None]


def test_an_error_before_the_end_is_an_error_and_after_it_is_the_end() -> None:
    def fail() -> None:
        raise TaskError("its process ended")

    with pytest.raises(TaskError):
        TimeBound(60.0).attempt(fail)
    late = TimeBound(3.0, Clock(1.5))
    assert late.attempt(fail) is None


def test_what_runs_is_stopped_again_and_again_until_the_block_ends() -> None:
    calls, twice = [], threading.Event()

    def stop() -> None:
        calls.append(1)
        if len(calls) == 2:
            twice.set()

    with TimeBound(0.0).stopping(stop):
        assert twice.wait(30)
    count = len(calls)
    with TimeBound(60.0).stopping(stop), TimeBound().stopping(stop):
        pass
    assert len(calls) == count
