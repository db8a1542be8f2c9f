"""Units for the architectures that no other test builds for: `ptxas` takes each, and the kernels are of that architecture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from cuda_bench import FACTS, CudaBench, DeviceTarget
from torch.nn import functional as F

from warpsmith.kernels.registry import family_of

R = torch.randn
SPILLED_BYTES = {("linear", "sm_100a"): 8}  # nothing has been tuned for it; the others spill nothing
ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100a")
CASES: dict[str, tuple[Callable[..., Any], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "softmax": (lambda x: torch.softmax(x, -1), lambda: (R(32, 1000),)),
    "linear": (lambda x, w: F.gelu(F.linear(x, w)), lambda: (R(256, 128), R(256, 128))),
}


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", CASES)
def test_first_technique_builds_for_the_architecture(
    emulated: CudaBench, toolkit: None, builds: Path, name: str, arch: str
) -> None:
    graph, _ = emulated.case(*CASES[name])
    region = emulated.whole(graph)
    family = family_of(graph, region, "cuda")
    assert family is not None
    technique = next(iter(family.techniques(graph, region, replace(FACTS, arch=arch))))
    build = DeviceTarget(builds / "cuda", arch=arch).build(
        family.write(graph, region, technique), graph, "main"
    )
    assert build.ok, build.diagnostics
    assert not build.diagnostics
    assert {kernel.arch for kernel in build.kernels} == {arch}
    allowed = SPILLED_BYTES.get((name, arch), 0)
    assert all(kernel.spill_store_bytes <= allowed for kernel in build.kernels), build.kernels
