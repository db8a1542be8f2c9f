"""`benchmarks/compiled_zoo.py`: model classes answer the same through the backend, with kernels in them."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DistilBertForQuestionAnswering"])
def test_a_model_with_kernels_in_it_answers_like_the_original(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path / "cache"))
    from compiled_zoo import check_entry, compile_model
    from model_zoo_models import entries

    entry = next(e for e in entries() if e.name == name)
    row = check_entry(
        entry, compile_model, argparse.Namespace(cache=tmp_path / "builds", kernels=1, next="eager")
    )
    assert (row["status"], row["detail"]) == ("right", "")
    assert row["operators"] == 1
    assert row["covered"] > 1


def test_the_page_counts_wrong_answers_and_what_kernels_ran_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from compiled_zoo import render_page

    row = {
        "family": "encoder",
        "detail": "",
        "refused": 0,
        "seconds": 1.0,
        "graphs": 1,
        "operations": 9,
        "covered": 4,
        "operators": 2,
    }
    rows = [
        {**row, "name": "A", "status": "right"},
        {**row, "name": "B", "status": "wrong", "detail": "output differs", "operators": 0},
    ]
    options = argparse.Namespace(
        library=["transformers"], next="eager", kernels=3, out=Path("o"), page=Path("p")
    )
    page = render_page(rows, options)
    assert (
        "**2 classes: 1 answer like the original, 1 wrongly, 0 ended otherwise; kernels ran in 1.**" in page
    )
    assert "| B | encoder | output differs |" in page
