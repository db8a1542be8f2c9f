"""Exports of a campaign's winners, and what an evaluation says of them, without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

LAB = Path(__file__).resolve().parents[2] / "lab"
OURS = {"candidate": "c", "ratios": {"eager": [2.0, 1.9, 2.1], "compile": [1.5, 1.4, 1.6]}}


@pytest.fixture(autouse=True)
def _lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(LAB))


def test_both_sides_are_told() -> None:
    from h200_exports import compared

    theirs = {"compiled": True, "correctness": True, "runtime": 50.0, "ref_runtime": 110.0}
    row = compared("level1/1", OURS, theirs)
    assert (row["theirs_over_eager"], row["ours_over_best"]) == (2.2, ["compile", 1.5])
    assert "theirs_over_eager" not in compared("level1/1", OURS, {**theirs, "correctness": False})


def test_an_evaluation_answers_or_says_why_not(tmp_path: Path) -> None:
    from h200_exports import evaluated

    package = tmp_path / "src" / "kernelbench"
    package.mkdir(parents=True)
    assert "No module named 'kernelbench" in evaluated(tmp_path, "", "")["error"]
    (package / "eval.py").write_text(
        "import types\n"
        "def eval_kernel_against_ref(reference, solution, **options):\n"
        "    made = {'correctness': solution == 'right', 'trials': options['num_correct_trials']}\n"
        "    return types.SimpleNamespace(model_dump=lambda mode, include: made)\n"
    )
    assert evaluated(tmp_path, "", "right") == {"correctness": True, "trials": 5}
    assert not evaluated(tmp_path, "", "wrong")["correctness"]
