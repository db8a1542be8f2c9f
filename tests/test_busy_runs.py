"""`benchmarks/busy_runs.py`: its table and its verdict, from prepared rows; nothing is run."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from warpsmith.records import Best, Ratio, RunSummary

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture
def busy_runs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("busy_runs")


def row(
    task: str, mode: str, repeat: int, status: str, low: float, median: float, high: float
) -> dict[str, Any]:
    ratio = Ratio(baseline="compile", median=median, low=low, high=high)
    best = Best(
        label="a", candidate_id="c", labels=("kernel",), speedup=ratio, speedup_eager=ratio, median_us=10.0,
        limit_share=0.4, confirmed=True, ratios=(ratio,),
    )  # fmt: skip
    summary = RunSummary(run_id="r", task=task, target="cpu", status=status, best=best)
    return {
        "task": task, "mode": mode, "repeat": repeat, "machine": "a machine", "seconds": 9.0, "code": 0,
        "summary": summary.model_dump(mode="json"), "log": [],
    }  # fmt: skip


ROWS = [
    row("softmax", "quiet", 0, "win", 1.3, 1.4, 1.5),
    row("softmax", "busy", 0, "win", 1.2, 1.6, 1.9),
    row("softmax", "busy", 1, "too-busy", 0.0, 1.5, 4.0),
    row("sum", "quiet", 0, "no-win", 0.9, 1.0, 1.1),
    row("sum", "busy", 0, "win", 1.2, 1.4, 1.6),
    row("norm", "quiet", 0, "no-win", 0.9, 1.0, 1.1),
    row("norm", "busy", 0, "too-busy", 0.0, 1.0, 2.0),
]


def test_a_claim_that_no_quiet_run_allows_is_a_contradiction(busy_runs: ModuleType) -> None:
    found = busy_runs.find_contradictions(ROWS)
    assert found == {
        "softmax": [],
        "sum": ["1.40x [1.20, 1.60] compile is above every quiet run"],
        "norm": [],
    }


def test_a_quiet_run_that_was_not_quiet_contradicts_nothing(busy_runs: ModuleType) -> None:
    rows = [row("sum", "quiet", 0, "too-busy", 0.0, 1.0, 1.1), *ROWS[4:5]]
    assert busy_runs.find_contradictions(rows) == {"sum": []}


def test_the_table_tells_statuses_speedups_and_shares_and_never_an_unknown_median(
    busy_runs: ModuleType,
) -> None:
    lost = {**ROWS[0], "repeat": 1, "summary": None, "code": None}
    page = busy_runs.make_page([*ROWS, lost])
    assert "1 of 2 claims of busy runs contradict the quiet ones. a machine." in page
    softmax, total, norm = (
        line for line in page.splitlines() if line.startswith(("| softmax", "| sum", "| norm"))
    )
    assert softmax == (
        "| softmax | 1 win, 1 no summary | 1.40x [1.30, 1.50] compile | 40% | 1 win, 1 too-busy "
        "| 1.60x [1.20, 1.90] compile; unknown (too noisy: 0.00 to 4.00) compile | 40% | yes |"
    )
    assert total.endswith("| 1.40x [1.20, 1.60] compile is above every quiet run |")
    assert norm.endswith(
        "| 1 too-busy | unknown (too noisy: 0.00 to 2.00) compile | — | nothing was claimed |"
    )
