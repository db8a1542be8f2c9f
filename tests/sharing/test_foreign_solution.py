"""A foreign kernel as files for the judge: the reference as the task, and a `ModelNew` that calls the built kernel."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from warpsmith.archive.foreign import ForeignKernel
from warpsmith.errors import UsageError
from warpsmith.sharing.solution import write_solution
from warpsmith.solutions.source import read_solution
from warpsmith.tasks.load import read_source

MODULE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        return torch.where(x > 0, x, x * self.slope)


def get_inputs():
    return [torch.randn(4, 4)]


def get_init_inputs():
    return [0.5]
"""
FUNCTIONAL = MODULE.replace(
    "class Model",
    "def module_fn(x, slope):\n    return torch.where(x > 0, x, x * slope)\n\n\nclass Model",
    1,
).replace(
    "def forward(self, x):\n        return torch.where(x > 0, x, x * self.slope)",
    "def forward(self, x, fn=module_fn):\n        return fn(x, self.slope)",
)
SOURCE = "#include <torch/extension.h>\n// \"\"\" \\ '''\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}\n"


def kernel(functional: str | None = FUNCTIONAL) -> ForeignKernel:
    return ForeignKernel(
        op_name="20_LeakyReLU", kernel_name='a "name"\\\n', cuda_code=SOURCE, module_code=MODULE,
        functional_code=functional,
    )  # fmt: skip


def test_the_judge_can_read_both_files(tmp_path: Path) -> None:
    task, solution = write_solution(kernel(), tmp_path / "new" / "folder")
    assert task.read_text() == MODULE
    assert "class ModelNew(Model)" in read_solution(solution)
    assert read_source(str(task)).text == MODULE


def test_the_kernel_gets_what_the_functional_reference_gets(tmp_path, monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils import cpp_extension

    built, seen = [], []

    def load_inline(name, cpp_sources, cuda_sources, extra_cuda_cflags):
        built.append((cuda_sources, extra_cuda_cflags))
        return SimpleNamespace(
            forward=lambda x, slope: seen.append(slope) or torch.where(x > 0, x, x * slope)
        )

    monkeypatch.setattr(cpp_extension, "load_inline", load_inline)
    _, solution = write_solution(kernel(), tmp_path)
    names: dict = {}
    exec(compile(solution.read_text(), str(solution), "exec"), names)
    x = torch.randn(3, 3)
    assert torch.equal(names["ModelNew"](0.25)(x), names["Model"](0.25)(x))
    assert seen == [0.25]
    assert built == [(SOURCE, ["-O3", "--use_fast_math"])]


@pytest.mark.parametrize("functional", [None, MODULE, "def ("])
def test_a_kernel_that_nobody_says_how_to_call_is_refused(tmp_path, functional) -> None:
    with pytest.raises(UsageError, match="how its kernel is called is not known"):
        write_solution(kernel(functional), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_files_that_are_there_stay(tmp_path) -> None:
    (tmp_path / "task.py").write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        write_solution(kernel(), tmp_path)
    assert (tmp_path / "task.py").read_text() == "mine"
    assert not (tmp_path / "solution.py").exists()
