"""The admission of suite `serving`: the recorded rows are of the files as they are, and the page says what the rows say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from warpsmith.tasks.load import load_suite

ROOT = Path(__file__).resolve().parents[1]
ROWS = ROOT / "results" / "cpu" / "serving_admission.jsonl"


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def row(task: str, text: str, **more: Any) -> dict[str, Any]:
    mutants = {"zeros": "budget on normal", "dropped add (add)": "equivalent"}
    return {
        "task": task, "text": text, "status": "admitted", "reason": "", "seconds": 2.0, "mutants": mutants,
        "inputs": ["bfloat16[2, 3]"], "ops": 4, **more,
    }  # fmt: skip


def test_every_task_of_the_suite_is_admitted_as_it_is_now() -> None:
    from json_lines import known_rows
    from serving_admission import hash_text

    rows = known_rows(ROWS)
    recorded = {name: (r["text"], r["status"]) for name, r in rows.items()}
    now = {f.stem: (hash_text(f), "admitted") for f in load_suite("serving")}
    assert recorded == now, "python benchmarks/serving_admission.py tries what changed"


def test_rows_of_changed_files_are_tried_again(tmp_path: Path) -> None:
    from json_lines import append_line, known_rows
    from serving_admission import drop_stale_rows, hash_text

    files = {name: tmp_path / f"{name}.py" for name in ("same", "changed")}
    for file in files.values():
        file.write_text("width = 1\n")
    rows = tmp_path / "rows.jsonl"
    for name in ("same", "changed", "removed"):
        append_line(rows, row(name, hash_text(files["same"])))
    files["changed"].write_text("width = 2\n")
    drop_stale_rows(rows, files)
    assert list(known_rows(rows)) == ["same"]


def test_the_page_counts_wrong_answers_and_says_why_a_task_is_out() -> None:
    from serving_admission import markdown

    passing = row(
        "b", "", status="quarantined", reason="a wrong answer passes: zeros", mutants={"zeros": "admitted"}
    )
    text = markdown(
        "serving",
        [row("a", ""), passing, {"task": "c", "status": "refused", "reason": "no file", "seconds": 1.0}],
    )
    assert "1 of 3 tasks are admitted: the file loads at every variant, each of 1 wrong answers fails" in text
    assert "| `a` | admitted | bfloat16[2, 3] | 4 | 1 | dropped add (add) | 2.0 |" in text
    assert "| `b` | quarantined: a wrong answer passes: zeros |" in text
    assert "| `c` | refused: no file |" in text
