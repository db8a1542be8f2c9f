"""`benchmarks/training_zoo.py`: a step with kernels in both halves gives the gradients of the original; the page counts what does not."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from training_modules import Mixer, draw_mixer

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.slow
def test_a_model_with_kernels_in_both_halves_gives_the_originals_gradients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path / "cache"))
    from compiled_zoo import check_entry
    from model_zoo_models import Entry
    from training_zoo import train_model

    entry = Entry("none", "Mixer", "decoder", Mixer, lambda module, seed: (draw_mixer(), {}))
    row = check_entry(
        entry, train_model, argparse.Namespace(cache=tmp_path / "builds", kernels=1, next="eager")
    )
    assert (row["status"], row["detail"]) == ("right", "")
    assert row["kernels"] == {"forward": 1, "backward": 1}
    assert row["compared"] == 5


def test_the_page_counts_other_gradients_and_kernels_in_both_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from training_zoo import render_page

    row = {"family": "encoder", "detail": "", "refused": 0, "kernels": {"forward": 2, "backward": 1}}
    rows = [
        {**row, "name": "A", "status": "right"},
        {**row, "name": "B", "status": "wrong", "detail": "output 3 misses its budget 2 times"},
        {**row, "name": "C", "status": "error", "detail": "TaskError: …", "kernels": {}},
    ]
    options = argparse.Namespace(
        library=["transformers"], next="eager", kernels=3, out=Path("o"), page=Path("p")
    )
    text = render_page(rows, options)
    assert "3 classes: 1 give the gradients of the original, 1 others, 1 ended otherwise" in text
    assert "kernels ran in both halves of 2" in text
    assert "output 3 misses its budget" in text
