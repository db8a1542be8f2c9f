"""A small archive of several tasks, made by hand: failures, surely and perhaps faster candidates, confirmations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warpsmith.archive import Archive
from warpsmith.records import (
    Admission,
    BaselineTiming,
    Candidate,
    Environment,
    Hypothesis,
    Lineage,
    Result,
    RunSummary,
    Task,
    TaskSource,
    Tunable,
    Unit,
    Variant,
)
from warpsmith.tasks.regions import make_region
from warpsmith.testing import chain_graph, scripted_result

OPS = ("exp", "neg", "tanh", "sin", "cos", "relu", "abs", "sqrt")
HERE = Environment(
    cpu="Test CPU", cores=2, threads=2, memory_gb=8.0, simd="avx2", os="Linux", python="3.11", torch="2.13.0",
    compiler="g++ 13",
)  # fmt: skip
THERE = HERE.model_copy(update={"cpu": "Other CPU"})


class SampleArchive:
    """Fills an archive."""

    def __init__(self, path: Path) -> None:
        self.archive = Archive(path)
        self.runs = 0

    def task(self, name: str, *ops: str) -> Task:
        graph = chain_graph([f"aten.{op}.default" for op in ops])
        text = f'"""{name}"""\n\nclass Model: ...\n'
        source = TaskSource(kind="kernelbench", path=f"KernelBench/level1/{name}.py", text=text)
        return Task(name=name, source=source, variants=(Variant(name="main", overrides={}, graph=graph),))

    def candidate(self, task: Task, code: str, value: int = 2, **lineage: Any) -> Candidate:
        region = make_region(task.graph, [n.name for n in task.graph.nodes])
        source = f"// warpsmith-unit: 1\n// family: pointwise   technique: fused\n// tunable: VEC = 2 {{2, 4}}\n{code}\n"
        unit = Unit(
            region=region, language="c++", source=source, family="pointwise", technique="fused",
            tunables=(Tunable(name="VEC", domain=(2, 4), value=value),),
        )  # fmt: skip
        return Candidate(task_id=task.id, target="cpu", units=(unit,), lineage=Lineage(**lineage))

    def begin(self, task: Task, environment: Environment = HERE) -> str:
        self.runs += 1
        run = f"run-{self.runs}"
        self.archive.begin_run(run, task, "cpu", 7, {"budget": 60}, environment)
        baselines = (
            BaselineTiming(name="eager", ok=True, median_us=100.0),
            BaselineTiming(name="compile", ok=True, median_us=80.0),
        )
        self.archive.note_run(run, baselines=baselines)
        return run

    def judge(
        self, run: str, of: Candidate, outcome: float | str, confirmed: bool = False,
        hypothesis: Hypothesis | None = None, environment: Environment = HERE,
    ) -> Result:  # fmt: skip
        """A speedup with a 2% interval, or the status of a failure."""
        result = scripted_result(of, outcome).model_copy(update={"environment": environment.id})
        if confirmed and result.timing is not None:
            timing = result.timing.model_copy(update={"confirmed": True})
            result = result.model_copy(update={"timing": timing})
        kind = "confirmation" if confirmed else "search"
        self.archive.add_result(run, of, result, hypothesis, kind=kind)
        return result

    def standard(self, name: str, *ops: str) -> str:
        """A run with a failure, its mended child, a slower one, one that is not surely slower, and a confirmation."""
        task = self.task(name, *ops)
        run = self.begin(task)
        asked = Hypothesis(
            region=self.candidate(task, "x").units[0].region, family="pointwise", technique="fused",
            bottleneck="memory", expected_gain=2.0, evidence=("ATen takes 3 passes", "1 would do"),
        )  # fmt: skip
        slow = self.candidate(task, f"int {name}_slow;")
        close = self.candidate(task, f"int {name}_close;", parents=(slow.id,), operator="rewrite")
        bad = self.candidate(task, f"int {name}_bad;", parents=(slow.id,), operator="rewrite")
        best = self.candidate(
            task, f"int {name}_best;", value=4, parents=(bad.id,), operator="repair", hypothesis=asked.id
        )
        self.judge(run, slow, 1.2)
        self.judge(run, bad, "incorrect")
        self.judge(run, close, 1.99)
        self.judge(run, best, 2.0, hypothesis=asked)
        self.judge(run, best, 2.01, confirmed=True)
        self.archive.finish_run(RunSummary(run_id=run, task=name, target="cpu", status="win"))
        return run

    def quarantine(self, run: str) -> None:
        self.archive.note_run(run, admission=Admission(admitted=False, mutants={}, reasons=("zeros pass",)))
