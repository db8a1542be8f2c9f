"""KernelBench tasks in another dtype, for the pass over memory-bound ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.processes.buffers import Scratch
from warpsmith.tasks.load import load_task

ROOT = Path(__file__).resolve().parents[2]
TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, features):
        super(Model, self).__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x, rows):
        return self.norm(x)[rows]

def get_inputs():
    return [torch.rand(8, 16), torch.arange(3)]

def get_init_inputs():
    return [16]
"""


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_floats_are_converted_and_integers_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "lab"))
    from narrow_task import narrow_task

    file = tmp_path / "1_Norm.py"
    file.write_text(TASK)
    (tmp_path / "narrow").mkdir()
    with Scratch() as scratch:
        task = load_task(str(narrow_task(file, dtype, tmp_path / "narrow")), scratch=scratch, timeout=60)
    assert task.name == f"1_Norm_{dtype}"
    assert [i.spec.dtype for i in task.graph.inputs] == [dtype, dtype, dtype, "int64"]
