"""`warpsmith judge`: what is printed and written, and how each ending is told by its exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from warpsmith.cli import app
from warpsmith.cli import judge as judge_command
from warpsmith.errors import UsageError
from warpsmith.records import Candidate, Check, Ratio, Timing, Unit
from warpsmith.solutions.verdict import SolutionVerdict, make_unit_verdict
from warpsmith.testing import chain_region, chain_task, scripted_result

RATIO = Ratio(baseline="compile", median=1.5, low=1.4, high=1.6)
EAGER = Ratio(baseline="eager", median=2.5, low=2.4, high=2.6)
TIMING = Timing(median_us=10, low_us=9, high_us=11, cache="cold", samples=9, ratios=(RATIO, EAGER))
VERDICT = SolutionVerdict(
    solution="s.py", task="t", target="cpu", verdict="correct", label="kernel", labels=("general",),
    reasons=("f.so in place of aten.relu",), speedup={"compile": RATIO, "eager": EAGER, "best": RATIO},
    parameters="seed", isolation="landlock7", timing=TIMING, hardware="Test CPU", seed=99,
)  # fmt: skip


def test_a_verdict_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    judge_command.print_verdict(VERDICT)
    out = capsys.readouterr().out
    assert out.startswith("correct, label kernel\n")
    assert "1.50x [1.40, 1.60] over compile (the best baseline)" in out
    assert "2.50x [2.40, 2.60] over eager\n" in out
    assert "on Test CPU, seed 99" in out
    assert "landlock7" in out


def test_a_failure_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    check = Check(variant="main", family="normal", where="whole", ok=False, rule="budget", detail="off by 2")
    update = {"verdict": "incorrect", "rule": "budget", "checks": (check,), "speedup": {}, "timing": None}
    judge_command.print_verdict(VERDICT.model_copy(update=update))
    out = capsys.readouterr().out
    assert out.startswith("incorrect, label kernel (rule: budget)\n")
    assert "failed: budget at main/normal: off by 2" in out
    assert "over eager" not in out


@pytest.mark.parametrize(
    ("status", "verdict"),
    [("ok", "correct"), ("incorrect", "incorrect"), ("crashed", "incorrect"), ("invalid", "invalid"),
     ("refused", "invalid")],
)  # fmt: skip
def test_a_units_result_in_the_same_terms(status: str, verdict: str) -> None:
    task = chain_task()
    unit = Unit(region=chain_region(task.graph, 0, 1), language="c++", source="//")
    candidate = Candidate(task_id=task.id, target="cpu", units=(unit,))
    result = scripted_result(candidate, 2.0).model_copy(update={"status": status, "reason": "why"})
    found = make_unit_verdict("k.cpp", "chain", result, "Test CPU")
    assert found.verdict == verdict
    assert bool(found.speedup) == (verdict == "correct")
    assert found.result == result
    if verdict == "correct":
        assert found.speedup["best"] in result.timing.ratios  # type: ignore[union-attr]


def test_it_needs_a_solution_and_a_task() -> None:
    with pytest.raises(UsageError, match="judge SOLUTION --task TASK"):
        judge_command.judge()


TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, 1) * 3.0
def get_inputs():
    return [torch.rand(24, 200)]
"""
SOLUTION = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return BODY\n"


@pytest.mark.slow
def test_json_and_exit_codes(
    command: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    with_peaks: Callable[..., Path],
    few_rounds: Callable[[], AbstractContextManager[None]],
) -> None:
    with_peaks(tmp_path / "cache", 1)
    monkeypatch.setenv("WARPSMITH_THREADS", "1")  # of a busy machine's
    (tmp_path / "task.py").write_text(TASK)

    def run(body: str) -> tuple[int, str, str]:
        (tmp_path / "s.py").write_text(SOLUTION.replace("BODY", body))
        given = ("s.py", "--task", "task.py", "--baselines", "eager", "--json", "-", "--quiet")
        with few_rounds():
            found: tuple[int, str, str] = command("judge", *given)
        return found

    code, out, error = run("torch.exp(torch.log_softmax(x, 1)) * 3.0")
    assert code == 0, out + error
    found = json.loads(out)
    assert (found["verdict"], found["label"]) == ("correct", "library")
    assert found["speedup"]["best"]["low"] <= found["speedup"]["eager"]["median"]
    assert found["isolation"]
    code, out, error = run("torch.softmax(x, 0) * 3.0")
    assert (code, json.loads(out)["verdict"]) == (1, "incorrect")
    assert json.loads(out)["reasons"]
    code, out, error = run("(")
    assert (code, out) == (2, "")
    assert len(error.strip().splitlines()) == 1
    assert error.startswith("warpsmith: ")


def test_the_command_is_there() -> None:
    assert any(c.callback is judge_command.judge for c in app.registered_commands)
