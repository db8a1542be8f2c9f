"""clang++ in place of g++: units are built, linked with clang's OpenMP, and right."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from unit_bench import Bench

from warpsmith.targets.cpu import CpuTarget

R = torch.randn
NAMES = ("clang++", *(f"clang++-{version}" for version in range(14, 24)))
CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "softmax": (lambda x: torch.softmax(torch.tanh(x), -1), (R(64, 100),)),
    "scaled softmax": (lambda x: torch.softmax(x * 0.3, -1), (1e30 * R(64, 100),)),
    "linear": (lambda x, w: F.gelu(F.linear(x, w)), (R(64, 60), R(50, 60))),
    "pooling": (lambda x: F.max_pool2d(x, 3, 2, 1), (R(2, 3, 19, 21),)),
}


@pytest.fixture(scope="module")
def clang_bench(builds: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A bench whose compiler is clang++ with OpenMP, or the tests are skipped."""
    compiler = next(filter(None, map(shutil.which, NAMES)), None)
    if compiler is None:
        pytest.skip("clang++ is not installed")
    source = tmp_path_factory.mktemp("clang") / "probe.cpp"
    source.write_text("#include <omp.h>\nint main() { return omp_get_max_threads() < 1; }\n")
    command = [compiler, "-fopenmp", str(source), "-o", str(source.with_suffix(""))]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("clang++ has no OpenMP runtime")
    return Bench(CpuTarget(builds / "clang", compiler=compiler, threads=2))


@pytest.mark.parametrize("name", CASES)
def test_units_built_by_clang_are_right(clang_bench: Bench, name: str) -> None:
    function, args = CASES[name]
    graph = clang_bench.graph(function, *args)
    for _, unit in clang_bench.techniques(graph, clang_bench.whole(graph)):
        clang_bench.check(unit, graph, args)
