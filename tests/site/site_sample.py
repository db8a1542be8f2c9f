"""A small archive of everything that a site shows: wins, losses, failures, screened, a quarantined task."""

from __future__ import annotations

from warpsmith.archive import Archive
from warpsmith.records import Admission, BaselineTiming, Environment, Limit, Lineage, Task
from warpsmith.testing import chain_candidate, chain_task, scripted_result, scripted_screening


def fill_sample(archive: Archive, environment: Environment) -> Archive:
    task = chain_task()
    archive.begin_run(
        "run-one", task, "cpu", 7, {"budget": {"seconds": 60}, "secret": "/home/me"}, environment
    )
    limit = Limit(
        seconds=1e-5, least_bytes=100, flops=100, bytes_per_second=1e9, flops_per_second=1e9, bound="memory"
    )
    eager = BaselineTiming(name="eager", ok=True, median_us=100, low_us=99, high_us=101, limit_share=0.1)
    archive.note_run(
        "run-one",
        baselines=[eager],
        limit=limit,
        admission=Admission(admitted=True, mutants={"zeros": "budget"}),
    )
    first = chain_candidate(
        "first", "#include <cmath>\nfloat f(float x) { return x < 1 ? 2.0f : 3.0f; } // <b>&\n"
    )
    child = chain_candidate("child", first.units[0].source + "int more;\n")
    child = child.model_copy(
        update={"lineage": Lineage(parents=(first.id,), operator="edit", reason="more of it")}
    )
    archive.add_result("run-one", first, scripted_result(first, 1.2, environment.id))
    archive.add_result("run-one", child, scripted_result(child, 2.0, environment.id))
    archive.add_confirmation("run-one", child, scripted_result(child, 1.9, environment.id, confirmed=True))
    for status in ("incorrect", "build-failed", "crashed"):
        failure = chain_candidate(status)
        archive.add_result("run-one", failure, scripted_result(failure, status, environment.id))
    screened = chain_candidate("screened")
    archive.add_result(
        "run-one",
        screened,
        scripted_screening(screened, 3.0).model_copy(update={"environment": environment.id}),
    )
    quarantined = add_task(archive, "quarantined", ("aten.sin.default", "aten.neg.default"))
    archive.begin_run("run-two", quarantined, "cpu", 7, {}, environment)
    archive.note_run(
        "run-two", admission=Admission(admitted=False, mutants={"zeros": "admitted"}, reasons=("zeros pass",))
    )
    cheat = chain_candidate("cheat").model_copy(update={"task_id": quarantined.id})
    archive.add_result("run-two", cheat, scripted_result(cheat, 9.0, environment.id, confirmed=True))
    add_task(archive, "untouched", ("aten.cos.default",))
    return archive


def add_task(archive: Archive, name: str, operators: tuple[str, ...]) -> Task:
    task = chain_task(operators).model_copy(update={"name": name})
    archive.add_task(task)
    return task
