"""The loading benchmark: a row says what loaded or why not, and the page has a line for each task."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.processes.buffers import Scratch

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
TASK = """
import torch
{more}
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x)
def get_inputs():
    return [torch.rand(4, 8)]
"""


def test_a_page_has_a_line_for_what_loads_and_for_what_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from kernelbench_load import load_one, page

    folder = tmp_path / "level3"
    folder.mkdir()
    rows = []
    with Scratch() as scratch:
        for name, more in (("1_tanh", ""), ("2_needs", "import a_package_of_nobody")):
            (folder / f"{name}.py").write_text(TASK.format(more=more))
            rows.append(load_one(folder / f"{name}.py", scratch, 60.0))
    text = page(rows)
    assert "1 of 2 load" in text
    assert "| 1 | main" in text
    assert "| loads" in text
    assert "refused: 2_needs.py: the package a_package_of_nobody is not installed" in text
    assert str(tmp_path) not in text
