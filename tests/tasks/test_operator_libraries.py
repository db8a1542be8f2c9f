"""A saved program of a module that calls operators of a library is loaded where nobody has imported that library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from warpsmith.errors import TaskError
from warpsmith.tasks.operator_libraries import list_libraries, load_program, save_program

LIBRARY = """
import torch

@torch.library.custom_op("warpsmith_test_library::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@doubled.register_fake
def _(x):
    return torch.empty_like(x)
"""
SAVE = """
import sys, torch
from pathlib import Path
import some_doubling
from warpsmith.tasks.operator_libraries import save_program
class Module(torch.nn.Module):
    def forward(self, x): return torch.ops.warpsmith_test_library.doubled(x) + 1
save_program(torch.export.export(Module(), (torch.ones(3),)), Path(sys.argv[1]))
"""
LOAD = """
import sys, torch
from warpsmith.tasks.operator_libraries import load_program
print(load_program(sys.argv[1]).module()(torch.ones(3)).tolist())
"""


def run(code: str, folder: Path, *arguments: str) -> str:
    source = Path(__file__).parents[2] / "src"
    answer = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={"PYTHONPATH": f"{folder}:{source}"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return answer.stdout + answer.stderr


def test_library_is_imported_before_its_operators_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "some_doubling.py").write_text(LIBRARY)
    saved = tmp_path / "program.pt2"
    run(SAVE, tmp_path, str(saved))
    assert "[3.0, 3.0, 3.0]" in run(LOAD, tmp_path, str(saved))
    (tmp_path / "some_doubling.py").unlink()
    with pytest.raises(TaskError, match="operators of some_doubling, which cannot be imported"):
        load_program(saved)


def test_program_of_torchs_operators_needs_no_library(tmp_path: Path) -> None:
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    assert list_libraries(program) == []
    save_program(program, tmp_path / "program.pt2")
    assert load_program(tmp_path / "program.pt2").module()(torch.ones(1, 2)).shape == (1, 2)
