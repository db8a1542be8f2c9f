"""A whole run by `optimize_task` with a judge by formula that takes its time, as a process of its own.

    python paced_run.py ARCHIVE SECONDS EVALUATIONS

The judge takes so many seconds for each stage of each candidate. Everything else is real: the search, the expert, the archive, what the run
tells of itself.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from warpsmith import api
from warpsmith.cli.main import stay_interruptible
from warpsmith.config import Config
from warpsmith.pipeline import run as run_module
from warpsmith.records import (
    Admission,
    BaselineTiming,
    Budget,
    Build,
    Candidate,
    Environment,
    Graph,
    Limit,
    Region,
    Result,
    Unit,
)
from warpsmith.targets.task_header import region_header
from warpsmith.testing import chain_task, scripted_result

HERE = Environment(
    cpu="scripted", cores=2, threads=2, memory_gb=1.0, simd="none", os="none", python="3", torch="0", compiler="none",
)  # fmt: skip
PACE = [0.2]  # seconds


class StubTarget:
    name, language = "cpu", "c++"

    def header(self, graph: Graph, region: Region) -> str:
        return region_header(graph, region, 2)

    def build(self, unit: Unit, graph: Graph, variant: str) -> Build:
        return Build(unit_key=unit.code_key, variant=variant, ok=False)


class PacedJudge:
    def __init__(self, *_: Any, progress: Any, **__: Any) -> None:
        self.target, self._progress = StubTarget(), progress
        self.moved: Any = lambda candidate, stage: None
        self.baselines = {
            "eager": BaselineTiming(name="eager", ok=True, median_us=100.0, low_us=99.0, high_us=101.0)
        }
        self.limit = Limit(
            seconds=1e-6, least_bytes=1, flops=1, bytes_per_second=1e9, flops_per_second=1e9, bound="memory"
        )
        self.admission, self.environment = Admission(admitted=True, mutants={}), HERE
        self.node_us, self.seconds = {"n0": 260.0, "n1": 40.0}, {"inputs": 0.1}

    def open(self) -> None:
        self._progress("timing baseline eager")
        time.sleep(PACE[0])

    def remeasure_limit(self) -> Limit:
        return self.limit

    def __enter__(self) -> PacedJudge:
        return self

    def __exit__(self, *_: object) -> None: ...


class PacedExecutor:
    def __init__(self, judge: PacedJudge) -> None:
        self._judge = judge
        self.spent: defaultdict[str, float] = defaultdict(float)

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for candidate in candidates:
            for stage in ("building", "verifying", "timing"):
                self._judge.moved(candidate, stage)
                time.sleep(PACE[0])
            self._judge.moved(candidate, "")
            yield judge(candidate)

    def remeasure(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        return map(judge, candidates)

    def wait_until_quiet(self, seconds: float) -> bool:
        return True

    def confirm(self, candidate: Candidate) -> Result:
        time.sleep(PACE[0])
        result = judge(candidate)
        if result.timing is None:
            return result
        return result.model_copy(update={"timing": result.timing.model_copy(update={"confirmed": True})})


def judge(candidate: Candidate) -> Result:
    told = " ".join(u.source for u in candidate.units)
    values = sum(sum(u.values.values()) for u in candidate.units)
    outcome: float | str = (
        "incorrect" if "WRONG" in told else 9.0 if "HANDMADE" in told else 1.2 + values % 7 / 10
    )
    return scripted_result(candidate, outcome, HERE.id)


def play(archive: Path, seconds: float, evaluations: int) -> None:
    PACE[0] = seconds
    run_module.ScreeningJudge, run_module.LocalExecutor = PacedJudge, PacedExecutor  # type: ignore[assignment,misc]
    api.make_target = lambda name, config: StubTarget()  # type: ignore[assignment,return-value]
    api._load = lambda *_: chain_task()
    config = Config(archive=archive, cache=archive.parent / "cache", near_limit=1e9, patience=50)
    budget = Budget(evaluations=evaluations, seconds=None)
    print(
        api.optimize_task("chain.py", budget=budget, config=config, progress=False, seed=5).model_dump_json()
    )


if __name__ == "__main__":
    stay_interruptible()
    play(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
