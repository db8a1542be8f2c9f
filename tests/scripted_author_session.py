"""A service whose archive holds one small task, judged by formula: its faces are tested in milliseconds,
without a compiler or torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from warpsmith import machine
from warpsmith.archive import Archive
from warpsmith.authoring import service as module
from warpsmith.authoring import task_queries
from warpsmith.authoring.service import AuthoringService
from warpsmith.config import Config
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Admission, Candidate, Limit, Result, Task
from warpsmith.targets.target import Target
from warpsmith.testing import chain_task, scripted_result


class ScriptedAuthorSession:
    """A unit's technique is its outcome: a speedup, or the status of a failure."""

    opened = 0  # how many, in this process

    def __init__(
        self, task: Task, target: Target, config: Config, archive: Archive, scratch: Scratch,
        progress: Callable[[str], None],
    ) -> None:  # fmt: skip
        type(self).opened += 1
        self.task, self.archive, self.run_id = task, archive, f"scripted{self.opened}"
        self.environment, self.count = machine.describe(), 0
        archive.begin_run(self.run_id, task, target.name, 0, {}, self.environment)
        progress("opening the scripted judge")
        self.judge = SimpleNamespace(
            admission=Admission(admitted=True, mutants={}), node_us={"n0": 3.0, "n1": 5.0}, baselines={},
            limit=Limit(seconds=1e-6, least_bytes=256, flops=64, bytes_per_second=1e9, flops_per_second=1e9, bound="memory"),
        )  # fmt: skip

    def judge_candidate(self, candidate: Candidate) -> Result:
        technique = candidate.units[-1].technique
        outcome: float | str = float(technique) if technique[:1].isdigit() else technique
        self.count += 1
        measured = {"environment": self.environment.id, "seed": self.count}
        result = scripted_result(candidate, outcome).model_copy(update=measured)
        self.archive.add_result(None, candidate, result)
        if result.win and result.timing is not None:
            timing = result.timing.model_copy(update={"confirmed": True})
            result = result.model_copy(update={"timing": timing})
            self.archive.add_confirmation(None, candidate, result)
        return result

    def close(self) -> None: ...


def unit(outcome: float | str) -> str:
    return f"// warpsmith-unit: 1\n// technique: {outcome}\nstatic void unit() {{}}\n"


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AuthoringService]:
    monkeypatch.setattr(module, "AuthorSession", ScriptedAuthorSession)
    monkeypatch.setattr(task_queries, "find_peaks", lambda config, target: None)
    monkeypatch.setattr(ScriptedAuthorSession, "opened", 0)
    with AuthoringService(Config(archive=tmp_path / "archive.db", cache=tmp_path / "cache")) as opened:
        yield opened


@pytest.fixture
def task(service: AuthoringService) -> Task:
    made = chain_task(("aten.exp.default", "aten.neg.default"))
    service.archive.add_task(made)
    return made
