"""A session of authors that judges by formula, so that faces of the service are tested in milliseconds, without a compiler or torch.

`AuthoringService(config, open_session=ScriptedAuthorSession)`: a unit's technique is its outcome, a speedup or the status of a failure.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

from .. import machine
from ..archive.store import Archive
from ..config import Config
from ..processes.buffers import Scratch
from ..records import Admission, BaselineTiming, Candidate, Check, Limit, Region, Result, Task
from ..records.result import STATUSES
from ..solutions.verdict import SolutionVerdict
from ..targets.target import Target
from .fakes import make_timing, scripted_result, scripted_screening

VALUE_GAIN = 0.1  # by which each step of a tunable's value changes the scripted speedup


class ScriptedAuthorSession:
    """A unit's technique is its outcome: a speedup, or the status of a failure. Larger values of tunables are faster."""

    opened = 0  # how many, in this process
    judged = 0  # candidates, in this process
    screened = 0
    solutions = 0

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

    def judge_solution(self, source: Path, quick: bool) -> SolutionVerdict:
        """Read the outcome that a solution states, as `write_scripted_solution` writes it."""
        type(self).solutions += 1
        stated = re.search(r"^# outcome: (\S+)(?: (\S+))?$", source.read_text(), re.MULTILINE)
        outcome, label = (stated[1], stated[2] or "kernel") if stated is not None else ("incorrect", "none")
        verdict = {
            "task": self.task.name,
            "target": "cpu",
            "solution": source.name,
            "hardware": self.environment.hardware,
        }
        check = Check(
            variant="main",
            family="own",
            where="whole",
            ok=outcome[0].isdigit(),
            rule="budget",
            detail="0.5 instead of 0.75",
        )
        if not check.ok:
            failed = {
                "verdict": outcome,
                "rule": "budget",
                "reasons": ("budget: 0.5 instead of 0.75",),
                "checks": (check,),
            }
            return SolutionVerdict.model_validate(verdict | failed)
        timing = make_timing(float(outcome))
        passed = {
            "verdict": "correct",
            "label": label,
            "checks": (check,),
            "timing": timing,
            "speedup": {"best": timing.ratios[0]},
        }
        return SolutionVerdict.model_validate(verdict | passed)

    def close(self) -> None: ...

    def _stamp(self, result: Result) -> Result:
        count = type(self).judged + type(self).screened
        return result.model_copy(update={"environment": self.environment.id, "seed": count})


def find_outcome(candidate: Candidate) -> float | str:
    """Read the outcome that a candidate's last unit states; the expert's own units are as fast as eager at their first values."""
    unit = candidate.units[-1]
    if unit.technique in STATUSES:
        return unit.technique
    steps = sum(t.domain.index(t.value) for t in unit.tunables)
    return (float(unit.technique) if unit.technique[:1].isdigit() else 1.0) * (1 + VALUE_GAIN * steps)


def write_scripted_unit(outcome: float | str, tunable: str = "", marker: str = "") -> str:
    """Write a unit whose technique is its outcome. `tunable`: as `T = 1 {1, 2, 4}`; `marker`: tells two sources apart."""
    lines = [
        "// warpsmith-unit: 1",
        f"// technique: {outcome}",
        *([f"// tunable: {tunable}"] if tunable else []),
    ]
    return "\n".join([*lines, f"static void unit() {{}}{f'  // {marker}' if marker else ''}", ""])


def write_scripted_solution(outcome: float | str, label: str = "kernel") -> str:
    """Write a `ModelNew` whose outcome is a speedup with a label, or "incorrect", or "invalid"."""
    return f"# outcome: {outcome} {label}\nimport torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"
