"""KernelBench through the whole loop: the page counts what the rows say, tasks get processors of their own,
and a task runs, is written down and is not run again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from warpsmith import machine
from warpsmith.errors import UsageError
from warpsmith.records import Best, Ratio, RunSummary

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
RUN = {"seconds": 2.0, "machine": "a machine", "jobs": 1, "cores": 2}
TASK = """
import torch
batch_size = 65536
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x * 2.0 + 1.0) * torch.sigmoid(x)
def get_inputs():
    return [torch.rand(batch_size, 512)]
def get_init_inputs():
    return []
"""
REFUSED = "this is no task\n"


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def ran(task: str, status: str, speedup: float, **more: Any) -> dict[str, Any]:
    """A row of a task that went through the loop with this confirmed speedup over both baselines."""
    ratios = [
        Ratio(baseline=b, median=m, low=m, high=m) for b, m in (("compile", speedup), ("eager", 2 * speedup))
    ]
    best = Best(
        label="one", candidate_id="c", labels=("kernel",), speedup=ratios[0], speedup_eager=ratios[1],
        median_us=10.0, limit_share=0.5, confirmed=True,
    )  # fmt: skip
    own: Any = status if status in ("win", "failed") else "no-win"
    summary = RunSummary(run_id="r", task=task, target="cpu", status=own, best=best)
    return {
        "task": task, "status": status, "reason": "" if status == "win" else "why", "overrides": {"batch": 4},
        "winner": "elementwise: one pass", "statuses": {"ok": 3, "incorrect": 1}, "confirmations": {"ok": 1},
        "failures": [["incorrect (softmax: two passes): budget", 1]], "internal": [],
        "summary": summary.model_dump(mode="json"), **RUN, **more,
    }  # fmt: skip


def test_the_page_counts_a_task_without_a_claimed_win_as_one() -> None:
    from kernelbench_cpu_report import markdown

    rows = [
        ran("level1/10_B", "win", 4.0),
        ran("level1/9_A", "quarantined", 9.0),
        {"task": "level2/1_C", "status": "refused", "reason": "needs a_package", **RUN},
        {"task": "level2/2_D", "status": "error", "reason": "not done in 9 s", "log": ["searching"], **RUN},
    ]
    page = markdown(rows, "--levels 1 2", left=3)
    assert "| level1 | 2 | 1 | 0 | 0 | 1 | 0 | 0 | 0 | 2.00× | 2.83× | 4.00× | 8.00× |" in page
    assert "| level2 | 2 | 0 | 0 | 0 | 0 | 1 | 0 | 1 | 1.00× | 1.00× | — | — |" in page
    assert "| all | 4 | 1 | 0 | 0 | 1 | 1 | 0 | 1 | 1.41× | 1.68× | 4.00× | 8.00× |" in page
    assert "6 ok, 2 incorrect" in page
    assert "3 tasks have not been run yet" in page
    assert page.index("level1/9\\_A") < page.index("level1/10\\_B")  # by number
    internal = page.partition("## Internal errors")[2].partition("##")[0]
    assert internal.strip() == "- level2/2\\_D: not done in 9 s / searching"
    assert "- level2/1\\_C: refused: needs a\\_package" in page
    assert "- 2 (level1/9, level1/10): incorrect (softmax: two passes): budget" in page


def test_a_candidate_the_judge_gave_up_on_is_an_internal_error_of_its_task() -> None:
    from kernelbench_cpu_report import markdown

    page = markdown([ran("level1/1_A", "win", 2.0, internal=["the judge lost a process twice"])], "", left=0)
    assert "- level1/1\\_A: the judge lost a process twice" in page
    assert "not been run" not in page


def test_each_task_has_cores_of_its_own() -> None:
    from lanes import slots

    cores = machine.physical_cores()
    given = slots(cores, 1)
    assert len(set().union(*given)) == cores
    assert set().union(*given) <= set(os.sched_getaffinity(0))
    with pytest.raises(UsageError, match=f"there are {cores} physical cores"):
        slots(1, cores + 1)


@pytest.mark.slow
@pytest.mark.alone  # its timing must count
def test_a_task_runs_through_the_whole_loop_once(tmp_path: Path) -> None:
    (tmp_path / "level1").mkdir()
    (tmp_path / "level1" / "1_Gate.py").write_text(TASK)
    (tmp_path / "level1" / "2_None.py").write_text(REFUSED)
    out = tmp_path / "rows"
    command = [
        sys.executable, str(BENCHMARKS / "kernelbench_cpu.py"), str(tmp_path), "--levels", "1", "--out", str(out),
        "--cache", str(tmp_path / "cache"), "--budget", "1", "--time", "15", "--cores", "1", "--baselines", "eager",
        "--bytes", str(1 << 20),
    ]  # fmt: skip

    def again() -> list[dict[str, Any]]:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in out.with_suffix(".jsonl").read_text().splitlines()]

    rows = {row["task"]: row for row in again()}
    gate, none = rows["level1/1_Gate"], rows["level1/2_None"]
    assert gate["status"] in ("win", "no-win", "too-busy"), gate["reason"]
    assert gate["overrides"] == {"batch_size": 256}
    assert gate["statuses"].get("ok", 0) >= 1
    assert gate["summary"]["seed"] == 0
    assert none["status"] == "refused"
    assert "| level1 | 2 |" in out.with_suffix(".md").read_text()
    assert len(again()) == 2
