"""The runner of a unit that is its own rewrite, in the place of a `CandidateRunner`: the reference worker interprets it.

In: the unit, the raw bytes of its region's inputs. Out: raw bytes of outputs, and times. The unit is data, its
operations come from a list (`runtime.rewrites`), and all of them are the library's own and write to nothing but their
results: so there are no guards to look at and no inputs to be changed. Shapes, dtypes and strides of what it makes must
be the region's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self

import numpy as np

from ...processes.buffers import Scratch, ValuesFile
from ...processes.worker import WorkerFailed
from ...records import Task, Unit
from ..isolation.runner import RunnerFailed, RunOutput
from .evidence import CALL_SECONDS, Evidence


class AtenRunner:
    """A context manager, as a `CandidateRunner` is one. `variants`: in the order in which they are run.

    `run` and `time` raise RunnerFailed where the operations do not run, or make something else than the region does.
    """

    isolation = "ATen only, in the reference worker"

    def __init__(
        self, unit: Unit, task: Task, variants: Sequence[str], evidence: Evidence, scratch: Scratch
    ) -> None:
        assert unit.rewrite is not None
        self._unit, self._task, self._evidence = unit, task, evidence
        self._values, self._made = scratch.new("aten-inputs"), scratch.new("aten-outputs")
        self._rewrite = unit.rewrite.model_dump(mode="json")
        self._variants, self._now = list(variants), 0

    def run(self, inputs: Sequence[np.ndarray], poison: int) -> RunOutput:
        """`inputs`: raw bytes, in the region's order. `poison` says nothing here."""
        self.close()
        specs = self._task.variant(self._variants[self._now]).graph.specs
        file = ValuesFile(self._values, [specs[n] for n in self._unit.region.inputs], create=True)
        for index, raw in enumerate(inputs):
            file.raw(index)[:] = np.ascontiguousarray(raw).reshape(-1).view(np.uint8)
        start = time.monotonic()
        self._ask(0)
        wall = time.monotonic() - start
        results = ValuesFile(self._made, [specs[n] for n in self._unit.region.outputs])
        outputs = [results.raw(i).copy() for i in range(len(self._unit.region.outputs))]
        return RunOutput(outputs, True, True, wall, wall)

    def time(self, n: int, cold: bool) -> list[int]:
        """Nanoseconds of each of `n` calls on the inputs of the last `run`."""
        return self._ask(n, cold)

    def pick(self, index: int) -> None:
        """Go on with another variant."""
        self._now = index

    def close(self) -> None:
        for path in (self._values, self._made):
            path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, calls: int, cold: bool = False) -> list[int]:
        region = self._unit.region
        try:
            with self._evidence.lock:
                answer = self._evidence.workers.call(
                    "stated", CALL_SECONDS, variant=self._variants[self._now], rewrite=self._rewrite,
                    inputs=region.inputs, outputs=region.outputs, values=str(self._values), path=str(self._made),
                    calls=calls, cold=cold,
                )  # fmt: skip
        except WorkerFailed as error:
            raise RunnerFailed(f"the unit's operations: {error}") from error
        return [int(ns) for ns in answer["nanoseconds"]]
