"""Winners that a test states: a kernel written by hand, and a result as if it had been judged here."""

from __future__ import annotations

from warpsmith.records import Candidate, Check, Ratio, Result, Task, Timing, Verdict
from warpsmith.targets.front_matter import unit_from_source
from warpsmith.tasks.regions import make_region


def make_result(candidate: Candidate, environment: str, speedup: float = 2.0) -> Result:
    ratio = Ratio(baseline="eager", median=speedup, low=speedup * 0.9, high=speedup * 1.1)
    timing = Timing(
        median_us=50.0, low_us=45.0, high_us=55.0, cache="cold", samples=30, ratios=(ratio,), limit_share=0.5, confirmed=True
    )  # fmt: skip
    check = Check(variant="main", family="task", where="whole", ok=True)
    return Result(
        candidate_id=candidate.id, content_key=candidate.content_key, task_id=candidate.task_id, target="cpu", status="ok",
        verdict=Verdict(correct=True, checks=(check,), labels=("kernel", "general", "deterministic", "float32")),
        timing=timing, environment=environment,
    )  # fmt: skip


def make_candidate(task: Task, source: str, nodes: list[str]) -> Candidate:
    unit = unit_from_source(source, make_region(task.graph, nodes), language="c++")
    return Candidate(task_id=task.id, target="cpu", units=(unit,))
