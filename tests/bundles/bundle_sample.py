"""A bundle of a made-up task with three candidates and one hypothesis, and results of it as a judge elsewhere would give them."""

from __future__ import annotations

from warpsmith import machine
from warpsmith.bundles.bundle import Bundle, make_bundle
from warpsmith.bundles.journal import Pass, ResultRow, TaskRow
from warpsmith.records import (
    Admission,
    BaselineTiming,
    Candidate,
    Hypothesis,
    Limit,
    Lineage,
    Result,
    TaskSource,
    Unit,
)
from warpsmith.testing import chain_region, chain_task, scripted_result

KEY = b"0123456789abcdef0123456789abcdef"
ENVIRONMENT = machine.describe().model_copy(update={"device": "Elsewhere 9000", "cpu": "Elsewhere 9000"})
TASK = chain_task().model_copy(
    update={"source": TaskSource(kind="kernelbench", path="chain.py", text="class Model: ...\n")}
)
REGION = chain_region(TASK.graph, 0, 1)
IDEA = Hypothesis(
    region=REGION, family="f", technique="a", bottleneck="memory", expected_gain=1.5, evidence=("seen",)
)
LIMIT = Limit(
    seconds=1e-6, least_bytes=1, flops=1, bytes_per_second=1.0, flops_per_second=1.0, bound="memory"
)


def candidate(technique: str, lineage: Lineage | None = None) -> Candidate:
    unit = Unit(region=REGION, language="c++", source=f"// {technique}", technique=technique)
    return Candidate(
        task_id=TASK.id, target="cpu", units=(unit,), lineage=lineage or Lineage(branch=technique)
    )


FAST = candidate("fast", Lineage(hypothesis=IDEA.id, branch="fast", operator="given", agent="author"))
FASTER, WRONG = candidate("faster", Lineage(parents=(FAST.id,), branch="faster")), candidate("wrong")
ALL = (FAST, FASTER, WRONG)


def made(key: bytes | None = None, canaries: int = 0) -> Bundle:
    return make_bundle("cpu", [TASK], ALL, [IDEA], canaries=canaries, key=key)


def result(of: Candidate, outcome: float | str, confirmed: bool = False, at: int = 0) -> Result:
    """As the judge elsewhere gave it, `at` seconds after noon."""
    found = scripted_result(of, outcome)
    if found.timing is not None:
        timing = found.timing.model_copy(update={"confirmed": confirmed})
        found = found.model_copy(update={"timing": timing})
    when = {"environment": ENVIRONMENT.id, "judged_at": f"2026-01-02T12:00:{at:02d}+00:00"}
    return found.model_copy(update=when)


def opening(**changes: object) -> TaskRow:
    return TaskRow.model_validate(
        {
            "task_id": TASK.id,
            "environment": ENVIRONMENT,
            "seed": 5,
            "at": "2026-01-02T12:00:00+00:00",
            "baselines": (BaselineTiming(name="eager", ok=True, median_us=100.0),),
            "limit": LIMIT,
            "admission": Admission(admitted=True, mutants={}),
            **changes,
        }
    )


def row(phase: Pass, judged: Result) -> ResultRow:
    return ResultRow(phase=phase, result=judged)


FIRSTS = (row("search", result(FAST, 2.0, at=1)), row("search", result(FASTER, 3.0, at=2)))
WHOLE = (
    opening(),
    *FIRSTS,
    row("search", result(WRONG, "incorrect", at=3)),
    row("confirmation", result(FASTER, 2.9, confirmed=True, at=4)),
)
