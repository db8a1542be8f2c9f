"""A candidate of one unit on a task of one op, without torch: what the observers are tried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from warpsmith.records import Candidate, Region, Task, Unit

HEAD = '#include "task.h"\n'
SIGNATURE = "static void unit(const in0_t* in0, out0_t* out0, void* workspace, void* stream) {{\n{body}\n}}\n"


@dataclass(frozen=True)
class FakeEvidence:
    """Inputs as the reference worker would make them: the region's own, here U[0, 1)."""

    task: Task

    def region(self, case: object, region: Region) -> SimpleNamespace:
        specs = self.task.variant(case.variant).graph.specs  # type: ignore[attr-defined]
        rng = np.random.default_rng(case.seed)  # type: ignore[attr-defined]
        raw = [rng.random(specs[name].numel, np.float32).view(np.uint8) for name in region.inputs]
        return SimpleNamespace(inputs=raw)

    def forget(self, case: object) -> None:
        """Nothing is kept."""


@dataclass(frozen=True)
class Made:
    task: Task
    candidate: Candidate
    evidence: FakeEvidence

    @property
    def unit(self) -> Unit:
        return self.candidate.units[0]


Make = Callable[..., Made]
