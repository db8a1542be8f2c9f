"""Several judges: each task has its own, at most so many are open, quick work goes first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from warpsmith.authoring.judge_pool import JudgePool
from warpsmith.records import Task
from warpsmith.testing import chain_task

ONE, OTHER, THIRD = (chain_task((f"aten.{op}.default",)) for op in ("exp", "neg", "abs"))


class Opened:
    def __init__(self, task: Task, log: list[str]) -> None:
        self.task, self.log = task, log
        log.append(f"open {task.graph.nodes[0].op}")

    def close(self) -> None:
        self.log.append(f"close {self.task.graph.nodes[0].op}")


@contextmanager
def pool(most: int) -> Iterator[tuple[JudgePool[Opened], list[str]]]:
    log: list[str] = []
    judges = JudgePool(lambda task: Opened(task, log), most)
    try:
        yield judges, log
    finally:
        judges.close()


def test_two_tasks_have_a_judge_each_that_stays() -> None:
    with pool(2) as (judges, log):
        for task in (ONE, OTHER, ONE, OTHER):
            judges.submit(task, lambda o: None).result(5)
        assert log == ["open aten.exp.default", "open aten.neg.default"]


def test_a_third_task_takes_the_place_of_one() -> None:
    with pool(2) as (judges, log):
        for task in (ONE, OTHER, THIRD):
            judges.submit(task, lambda o: None).result(5)
        assert len([line for line in log if line.startswith("open")]) == 3
        assert len([line for line in log if line.startswith("close")]) == 1


def test_work_of_two_tasks_runs_side_by_side() -> None:
    barrier = threading.Barrier(2, timeout=10)
    with pool(2) as (judges, _):
        both = [judges.submit(task, lambda o: barrier.wait()) for task in (ONE, OTHER)]
        assert sorted(job.result(10) for job in both) == [0, 1]


def test_quick_work_goes_before_what_yields() -> None:
    order: list[str] = []
    release = threading.Event()
    with pool(1) as (judges, _):
        judges.submit(ONE, lambda o: release.wait(10))
        verdict = judges.submit(ONE, lambda o: order.append("verdict"), yields_s=20.0)
        screening = judges.submit(ONE, lambda o: order.append("screening"))
        release.set()
        verdict.result(10)
        screening.result(10)
    assert order == ["screening", "verdict"]


def test_work_for_the_open_judge_goes_before_older_work_for_another() -> None:
    order: list[str] = []
    release = threading.Event()
    with pool(1) as (judges, log):
        judges.submit(ONE, lambda o: release.wait(10))
        far = judges.submit(OTHER, lambda o: order.append("other"))
        near = judges.submit(ONE, lambda o: order.append("one"))
        release.set()
        far.result(10)
        near.result(10)
    assert order == ["one", "other"]
    assert log[:3] == ["open aten.exp.default", "close aten.exp.default", "open aten.neg.default"]
