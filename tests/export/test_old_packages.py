"""Packages that earlier versions exported go on: each is imported as it was written, alone, and its kernel answers.

`old_files/packages` has one for each form that `warpsmith export --as package` has had on a CPU, all of a winner for `examples/layernorm.py`:
of 2026-11-22 (commit 834b3cac: graph and kernel alone), 2026-11-24 (2417f26f: modules that take and return values of any class), 2026-11-25
(2b340135: with an operator and a wheel). Each was written by that version itself. A kernel that was built for another processor is rebuilt by the package.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

PACKAGES = sorted((Path(__file__).parents[1] / "old_files" / "packages").glob("*.tar.gz"))
USE = """
import json, sys
import torch
from layernorm_fast import optimized

torch.manual_seed(0)
model = torch.nn.Module()
model.norm = torch.nn.LayerNorm(1024)
torch.nn.init.normal_(model.norm.weight, mean=1.0, std=0.3)
torch.nn.init.normal_(model.norm.bias, std=0.3)
model.forward = lambda x: model.norm(x)
fast, x, other = optimized(model.eval()), torch.randn(2048, 1024) * 3 + 1, torch.randn(7, 1024)
with torch.no_grad():
    fast(x)  # a package that returns any class learns it from the first call
    y, exact = fast(x), model.double()(x.double())
    model.float()
    told = {
        "active": fast.active,
        "fast": fast.fast_calls,
        "error": (y.double() - exact).abs().max().item(),
        "eager_error": (model(x).double() - exact).abs().max().item(),
        "other": torch.equal(fast(other), model(other)),
        "warpsmith": "warpsmith" in sys.modules,
    }
print(json.dumps(told))
"""


def use_alone(folder: Path) -> dict[str, Any]:
    """Use the package below a folder in a process that knows nothing of this repository."""
    process = subprocess.run(
        [sys.executable, "-c", USE], cwd=folder, env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    told: dict[str, Any] = json.loads(process.stdout)
    return told


def test_there_are_packages_and_they_are_small() -> None:
    assert len(PACKAGES) == 3
    assert all(p.stat().st_size < 100_000 for p in PACKAGES)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: p.name.partition(".")[0])
@pytest.mark.parametrize("built_for", ["this or another processor", "another processor"])
def test_a_package_of_an_earlier_version_answers_by_its_kernel(
    package: Path, built_for: str, tmp_path: Path
) -> None:
    with tarfile.open(package) as file:
        file.extractall(tmp_path, filter="data")
    folder = tmp_path / "layernorm_fast"
    if built_for == "another processor":
        manifest = folder / "layernorm_fast" / "manifest.json"
        record = json.loads(manifest.read_text())
        assert record["processor"]
        manifest.write_text(json.dumps(record | {"processor": ["a feature that no processor has"]}))
        (folder / "layernorm_fast" / "lib" / "unit0.so").write_bytes(b"no library")
    told = use_alone(folder)
    assert told["active"]
    assert told["fast"] >= 1
    assert told["error"] <= 2 * told["eager_error"]
    assert told["other"]  # rows of another number go to the module itself
    assert not told["warpsmith"]
