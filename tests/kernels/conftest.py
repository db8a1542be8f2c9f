"""The benches that units of the expert are built and run on; one for the whole session."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from cuda_bench import CudaBench
from unit_bench import Bench

from warpsmith.targets.cpu import CpuTarget


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all that is compiled lies by its content: for all processes of a session, or, if WARPSMITH_TEST_BUILDS names a
    folder, for later ones too.
    """
    kept = os.environ.get("WARPSMITH_TEST_BUILDS")
    if kept:
        return Path(kept).absolute()
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "builds"


@pytest.fixture(scope="session")
def bench(builds: Path) -> Bench:
    return Bench(CpuTarget(builds / "cpu", threads=2))


@pytest.fixture(scope="session")
def emulated(builds: Path) -> CudaBench:
    """CUDA on the CPU."""
    return CudaBench(CpuTarget(builds / "cpu", threads=2), folder=builds / "emulated")


@pytest.fixture(scope="session")
def contracting(emulated: CudaBench) -> CudaBench:
    """CUDA on the CPU, with products and sums fused as nvcc may fuse them."""
    return replace(emulated, contracting=True)
