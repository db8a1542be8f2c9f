"""How long whole networks take until a judge is ready: rows survive a kill, a run goes on where it was stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from warpsmith import machine

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x * 2.0 + 1.0)
def get_inputs():
    return [torch.rand(64, 32)]
"""
HANGS = "import time\ntime.sleep(600)\n" + TASK


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kb" / "level3").mkdir(parents=True)
    return tmp_path / "kb"


def run(folder: Path, *options: str) -> tuple[list[dict[str, Any]], str]:
    """Rows written so far, and the page."""
    out = folder.parent / "open"
    command = [sys.executable, str(BENCHMARKS / "level3_open.py"), str(folder), "--out", str(out)]
    source = str(BENCHMARKS.parent / "src")
    subprocess.run(
        [*command, "--cache", str(folder.parent / "cache"), *options], check=False, capture_output=True,
        env={**os.environ, "PYTHONPATH": source},
    )  # fmt: skip
    rows = [json.loads(line) for line in out.with_suffix(".jsonl").read_text().splitlines()]
    return rows, out.with_suffix(".md").read_text()


@pytest.mark.slow
def test_a_task_is_opened_and_seconds_are_told_by_stage(folder: Path) -> None:
    (folder / "level3" / "1_tanh.py").write_text(TASK)
    (folder / "level3" / "2_none.py").write_text("this is no task\n")
    rows, page = run(folder)
    ready, refused = sorted(rows, key=lambda row: row["task"])
    assert ready["outcome"] == "ready"
    assert {"load", "inputs", "admission", "baselines"} <= set(ready["seconds"])
    assert ready["baselines_us"]["eager"] > 0
    assert refused["outcome"] == "refused"
    assert "2_none.py" in refused["reason"]
    assert str(folder) not in page
    assert run(folder)[0] == rows  # nothing is run twice


@pytest.mark.slow
def test_a_task_that_takes_too_long_says_where_it_was(folder: Path) -> None:
    (folder / "level3" / "1_hangs.py").write_text(HANGS)
    rows, page = run(folder, "--timeout", "8")
    assert [row["outcome"] for row in rows] == ["timeout"]
    assert "not done in 8 s: load" in page


def test_no_row_is_written_for_what_the_end_of_the_run_cut_short(folder: Path) -> None:
    (folder / "level3" / "1_tanh.py").write_text(TASK)
    rows, page = run(folder, "--seconds", "0")
    assert rows == []
    assert "1 tasks have no row yet" in page


def test_rows_of_an_earlier_run_are_known(folder: Path, tmp_path: Path) -> None:
    (folder / "level3" / "1_tanh.py").write_text(TASK)
    earlier = {
        "task": "level3/1_tanh", "outcome": "ready", "reason": "", "seconds": {"load": 2.5}, "total": 9.0,
        "machine": "a GPU", "target": "cuda", "jobs": 4, "limit": 150.0, "date": "2026-11-24", "baselines": ["eager"],
    }  # fmt: skip
    (tmp_path / "earlier.jsonl").write_text(json.dumps(earlier) + "\n{cut sho")
    rows, page = run(folder, "--known", str(tmp_path / "earlier.jsonl"))
    assert rows == []
    assert "| level3/1_tanh | its own |  |  | 2.5 |" in page


def test_a_process_that_dies_leaves_its_stage_and_its_last_words(tmp_path: Path) -> None:
    from item_processes import Items
    from level3_open import COLUMNS

    script = tmp_path / "dies.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\n"
        "row = next(word for word in sys.argv if word.startswith('--row=')).removeprefix('--row=')\n"
        'Path(row).write_text(\'{"stage": "making inputs", "seconds": {"load": 1.0}}\')\n'
        "sys.exit('out of luck')\n"
    )
    items = Items(str(script), [], 60.0, columns=COLUMNS)
    (row,) = items.run_rest(["level3/1_tanh"], tmp_path / "rows.jsonl")
    assert (row["task"], row["outcome"], row["reason"]) == (
        "level3/1_tanh", "error", "ended with code 1: making inputs",
    )  # fmt: skip
    assert row["log"] == ["out of luck"]
    assert row["seconds"] == {"load": 1.0}


def test_tasks_side_by_side_share_the_processors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from lanes import divide

    monkeypatch.setattr(machine, "CPU_DIR", tmp_path)  # says nothing about hyperthreads
    monkeypatch.setattr(machine, "affinity", lambda: list(range(9)))
    assert [len(lane) for lane in divide(4, None)] == [2, 2, 2, 2]
    assert divide(1, None) == [set(range(9))]
    assert len(set().union(*divide(3, 2))) == 6
