"""The admission benchmark: shapes shrink by rule, rows survive a kill, and the page counts what the rows say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from warpsmith import machine
from warpsmith.processes.buffers import Scratch

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
TASK = """
import torch
batch_size = 4096
features = 8192
class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(features))
    def forward(self, x):
        return torch.softmax(x * self.weight, dim=1){more}
def get_inputs():
    return [torch.rand(batch_size, features)]
def get_init_inputs():
    return [features]
"""


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def row(task: str, admitted: bool, zeros: str, **more: Any) -> dict[str, Any]:
    mutants = {"zeros": "budget on own" if admitted else "admitted", "dropped relu (relu)": "equivalent"}
    kernelbench = {"zeros": zeros, "dropped relu (relu)": "1e-4"}
    reasons = [] if admitted else ["a wrong answer passes: zeros"]
    return {
        "task": task, "admitted": admitted, "reasons": reasons, "mutants": mutants, "kernelbench": kernelbench,
        "full": True, "overrides": {}, "inputs": [], "bytes": 1, "flops": 1, "seconds": 2.0, **more,
    }  # fmt: skip


def test_the_page_counts_both_judges_and_leaves_equivalents_out() -> None:
    from kernelbench_admission_report import counted, markdown

    rows = [
        row("level1/23_Softmax", True, "1e-2"),
        row("level2/80_Gemm", False, "1e-4"),
        {"task": "level3/1_X", "refused": "slow", "seconds": 9.0},
    ]
    assert [counted(r, "1e-4") for r in rows[:2]] == [[], ["zeros"]]
    assert [counted(r, "1e-2") for r in rows[:2]] == [["zeros"], ["zeros"]]
    assert [counted(r) for r in rows[:2]] == [[], ["zeros"]]
    page = markdown(rows, "cpu", machine.describe())
    assert "| zeros | 2 | 1 | 1 | 2 |" in page
    assert "| one op dropped | 0 | 0 | 0 | 0 |" in page
    assert "- `level2/80_Gemm`: a wrong answer passes: zeros" in page
    assert "- `level3/1_X`: slow" in page
    assert "level1/23: admitted here; zeros pass KernelBench's check: 1e-2" in page


def test_the_list_is_set_beside_metrs() -> None:
    from kernelbench_admission_report import METR, THEN, markdown

    rows = [
        row("level1/23_Softmax", True, "1e-2"),
        row("level1/50_conv", True, "1e-4"),
        row("level2/80_Gemm", False, "1e-4"),
        row("level2/65_Conv", False, "1e-4"),
        row("level4/9_Bert", False, "1e-4"),
        {"task": "level3/3_X", "refused": "slow | large", "seconds": 9.0},
    ]
    page = markdown(rows, "cpu", machine.describe())
    assert "| quarantined here | 1 | 1 |" in page
    assert "| admitted here | 2 | 0 |" in page
    assert "| admitted here, but some wrong answer passes KernelBench's 1e-4 | 1 | 0 |" in page
    assert "| zeros or a constant pass KernelBench's 1e-4 | 2 | 1 |" in page
    assert "| zeros or a constant pass KernelBench's 1e-2 | 3 | 1 |" in page
    assert "| not tried here | 1 | 0 |" in page
    assert "kept by METR: level2/65." in page
    assert "39 of METR's tasks are not among these rows." in page
    assert "| level1/23 | admitted | 1e-2 | no |  | the same |" in page
    assert "| level1/50 | admitted | 1e-4 | no |  | Product_reduction_over_a_dimension |" in page
    assert "| level2/80 | quarantined | 1e-4 | no | a wrong answer passes: zeros | the same |" in page
    assert "| level3/3 | not tried | – | – | slow / large | the same |" in page
    assert set(THEN) < {f"{level}/{number}" for level, numbers in METR.items() for number in numbers}


def test_a_row_cut_short_by_a_kill_is_done_again(tmp_path: Path) -> None:
    from json_lines import known_rows

    (tmp_path / "a.jsonl").write_text('{"task": "level1/1_A", "admitted": true}\n{"task": "level1/2_B", "adm')
    assert list(known_rows(tmp_path / "a.jsonl")) == ["level1/1_A"]
    assert known_rows(tmp_path / "none.jsonl") == {}


@pytest.mark.parametrize(
    ("more", "bound", "overrides", "fits"),
    [
        ("", 1 << 20, {"batch_size": 8}, True),  # the batch alone: the values stay what they are
        (" + torch.zeros(8192)", 1 << 14, {"batch_size": 2}, False),  # other features do not construct
        ("", 1 << 40, {}, True),
    ],
)
def test_shapes_shrink_until_they_fit_and_no_further_than_the_task_allows(
    more: str, bound: float, overrides: dict[str, int], fits: bool, tmp_path: Path
) -> None:
    from shrunk_task import Bounds, shrunk_task

    (tmp_path / "task.py").write_text(TASK.replace("{more}", more))
    with Scratch() as scratch:
        limits = Bounds(bound, 8 * bound, 1e15)
        task = shrunk_task(str(tmp_path / "task.py"), limits, scratch=scratch, timeout=60.0)
    assert task.main.overrides == overrides
    assert (limits.excess(task.graph) <= 1) == fits


def test_a_product_is_no_smaller_than_it_has_to_be(tmp_path: Path) -> None:
    """Its operations go with the cube of its size: eight times too many are half of it, not an eighth."""
    from shrunk_task import Bounds, shrunk_task

    (tmp_path / "square.py").write_text(
        "import torch\nN = 256\nclass Model(torch.nn.Module):\n    def forward(self, a, b):\n        return a @ b\n"
        "def get_inputs():\n    return [torch.rand(N, N), torch.rand(N, N)]\ndef get_init_inputs():\n    return []\n"
    )
    with Scratch() as scratch:
        limits = Bounds(1e9, 1e9, 5e6)
        task = shrunk_task(str(tmp_path / "square.py"), limits, scratch=scratch, timeout=60.0)
    assert task.main.overrides == {"N": 128}


def test_kernelbench_s_own_check_is_tried_on_every_mutant(tmp_path: Path) -> None:
    """A softmax over many elements is all but zero: within an absolute tolerance of 1e-2 zeros pass."""
    import kernelbench_admission as benchmark

    from warpsmith.judge.correctness.evidence import Evidence
    from warpsmith.judge.correctness.workers import Workers
    from warpsmith.tasks.load import load_task

    text = TASK.format(more="").replace("4096", "8").replace("8192", "500")
    (tmp_path / "1_softmax.py").write_text(text)
    with Scratch() as scratch:
        task = load_task(str(tmp_path / "1_softmax.py"), scratch=scratch)
        with Workers(task, scratch, threads=2) as workers:
            evidence = Evidence(task, workers, scratch, 1, 1 << 26)
            accepted = benchmark.kernelbench_accepts(task, evidence, "cpu")
    assert accepted["zeros"] == "1e-2"
    assert accepted["dropped _softmax (_softmax)"] == ""
