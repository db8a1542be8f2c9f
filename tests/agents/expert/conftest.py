"""The benches that units of the expert are built and run on; one for the whole session."""

from __future__ import annotations

from pathlib import Path

import pytest
from cuda_bench import CudaBench
from unit_bench import Bench

from warpsmith.targets.cpu import CpuTarget


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    cache: Path = tmp_path_factory.mktemp("builds")
    return Bench(CpuTarget(cache, threads=2))


@pytest.fixture(scope="session")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> CudaBench:
    """CUDA on the CPU."""
    folder: Path = tmp_path_factory.mktemp("emulated")
    return CudaBench(CpuTarget(folder, threads=2), folder=folder)
