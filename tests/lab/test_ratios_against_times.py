"""Rows whose speedup their own times do not bear out are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

LAB = Path(__file__).resolve().parents[2] / "lab"


def make_row(task: str, ratio: float, us: float, **fields: object) -> str:
    ratios = {"compile": [ratio, ratio, ratio], "eager": [9.0, 8.9, 9.1]}
    row = {
        "task": task,
        "status": "win",
        "ratios": ratios,
        "baselines": {"compile": 100.0, "eager": 900.0},
        "us": us,
    }
    return json.dumps(row | fields) + "\n"


def test_a_win_that_its_own_times_refute_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(LAB))
    from ratios_against_times import main

    rows = tmp_path / "rows.jsonl"
    sound = make_row("level1/1", 2.0, 51.0) + json.dumps({"task": "level1/2", "status": "not judged"}) + "\n"
    rows.write_text(sound + make_row("level1/3", 1.5, 66.0))
    assert main([str(rows)]) == 0
    assert capsys.readouterr().out == "2 rows, 0 differ by more than 10%, 0 wins are none by their times\n"
    rows.write_text(sound + make_row("level1/4", 1.6, 101.0) + make_row("level1/5", 2.0, 60.0))
    assert main([str(rows)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "level1/4: win, 1.60 measured in turns, 0.99 by times alone",
        "level1/5: win, 2.00 measured in turns, 1.67 by times alone",
        "3 rows, 2 differ by more than 10%, 1 wins are none by their times",
    ]
    for wrong in ([], [str(tmp_path / "gone.jsonl")]):
        assert main(wrong) == 2
        assert capsys.readouterr().err.startswith("give one file of rows")
