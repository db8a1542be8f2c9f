"""A session of authors that judges by formula, so that faces of the service are tested in milliseconds, without a compiler or torch.

`AuthoringService(config, open_session=ScriptedAuthorSession)`: a unit's technique is its outcome, a speedup or the status of a failure.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace

from .. import machine
from ..archive.store import Archive
from ..config import Config
from ..processes.buffers import Scratch
from ..records import Admission, BaselineTiming, Candidate, Limit, Region, Result, Task
from ..targets.target import Target
from .fakes import scripted_result, scripted_screening

VALUE_GAIN = 0.1  # by which each step of a tunable's value changes the scripted speedup


class ScriptedAuthorSession:
    """A unit's technique is its outcome: a speedup, or the status of a failure. Larger values of tunables are faster."""

    opened = 0  # how many, in this process
    judged = 0  # candidates, in this process
    screened = 0

    def __init__(
        self, task: Task, target: Target, config: Config, archive: Archive, scratch: Scratch,
        progress: Callable[[str], None],
    ) -> None:  # fmt: skip
        type(self).opened += 1
        self.task, self.archive, self.run_id = task, archive, f"scripted{secrets.token_hex(4)}"
        self.environment, self.progress = machine.describe(), progress
        archive.begin_run(self.run_id, task, target.name, 0, {}, self.environment)
        progress("opening the scripted judge")
        self.judge = SimpleNamespace(
            admission=Admission(admitted=True, mutants={}), node_us={"n0": 3.0, "n1": 5.0}, baselines={},
            limit=Limit(seconds=1e-6, least_bytes=256, flops=64, bytes_per_second=1e9, flops_per_second=1e9, bound="memory"),
        )  # fmt: skip

    def open_for_screening(self) -> None:
        eager = BaselineTiming(name="eager", ok=True, median_us=100.0, low_us=99.0, high_us=101.0)
        self.archive.note_run(self.run_id, (eager,), self.judge.limit)

    def prepare_regions(self, regions: Sequence[Region]) -> None: ...

    @property
    def doubts(self) -> tuple[str, ...]:
        admission: Admission = self.judge.admission
        return () if admission.admitted else admission.reasons

    def screen(self, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, Result]]:
        self.open_for_screening()
        for number, candidate in enumerate(candidates, 1):
            self.progress(f"screening {number} of {len(candidates)}")
            type(self).screened += 1
            result = self._stamp(scripted_screening(candidate, find_outcome(candidate)))
            self.archive.add_result(self.run_id, candidate, result)
            yield candidate, result

    def judge_candidate(self, candidate: Candidate, known: Result | None = None) -> Result:
        result = known
        if result is None:
            type(self).judged += 1
            result = self._stamp(scripted_result(candidate, find_outcome(candidate)))
            self.archive.add_result(None, candidate, result)
        if result.win and result.timing is not None:
            timing = result.timing.model_copy(update={"confirmed": True})
            result = result.model_copy(update={"timing": timing})
            self.archive.add_confirmation(None, candidate, result)
        return result

    def close(self) -> None: ...

    def _stamp(self, result: Result) -> Result:
        count = type(self).judged + type(self).screened
        return result.model_copy(update={"environment": self.environment.id, "seed": count})


def find_outcome(candidate: Candidate) -> float | str:
    """Read the outcome that a candidate's last unit states."""
    unit = candidate.units[-1]
    if not unit.technique[:1].isdigit():
        return unit.technique
    steps = sum(t.domain.index(t.value) for t in unit.tunables)
    return float(unit.technique) * (1 + VALUE_GAIN * steps)


def write_scripted_unit(outcome: float | str, tunable: str = "", marker: str = "") -> str:
    """Write a unit whose technique is its outcome. `tunable`: as `T = 1 {1, 2, 4}`; `marker`: tells two sources apart."""
    lines = [
        "// warpsmith-unit: 1",
        f"// technique: {outcome}",
        *([f"// tunable: {tunable}"] if tunable else []),
    ]
    return "\n".join([*lines, f"static void unit() {{}}{f'  // {marker}' if marker else ''}", ""])
