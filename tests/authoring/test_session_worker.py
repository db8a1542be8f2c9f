"""The judge that is kept open: one at a time, closed when nobody needs it, lost by nobody."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError

import pytest

from warpsmith.authoring import session_worker as module
from warpsmith.authoring.session_worker import JudgeSessionWorker
from warpsmith.errors import JudgeError
from warpsmith.records import Task
from warpsmith.testing import chain_task

ONE, OTHER = chain_task(("aten.exp.default",)), chain_task(("aten.neg.default",))


class Opened:
    """Stands for a judge; notes what happens to it, and in which thread."""

    def __init__(self, task: Task, log: list[tuple[str, str]]) -> None:
        self.task, self.log, self.thread = task, log, threading.get_ident()
        self._note("open")

    def close(self) -> None:
        assert threading.get_ident() == self.thread  # its processes are children of this thread
        self._note("close")

    def _note(self, what: str) -> None:
        self.log.append((what, self.task.graph.nodes[0].op.split(".")[1]))


@pytest.fixture
def made() -> tuple[Callable[..., JudgeSessionWorker[Opened]], list[tuple[str, str]]]:
    log: list[tuple[str, str]] = []
    return lambda **options: JudgeSessionWorker(lambda task: Opened(task, log), **options), log


def test_one_judge_serves_a_task_until_another_comes(made) -> None:
    make, log = made
    with make() as worker:
        threads = {worker.submit(ONE, lambda o: o.thread).result(5) for _ in range(3)}
        worker.submit(OTHER, lambda o: None).result(5)
    assert len(threads) == 1
    assert log == [("open", "exp"), ("close", "exp"), ("open", "neg"), ("close", "neg")]


def test_work_is_done_one_at_a_time_and_in_order(made) -> None:
    make, _ = made
    running, most, order = [], [], []

    def work(number: int) -> Callable[[Opened], None]:
        def one(opened: Opened) -> None:
            running.append(number)
            most.append(len(running))
            time.sleep(0.01)
            running.remove(number)
            order.append(number)

        return one

    with make() as worker:
        for job in [worker.submit(ONE, work(n)) for n in range(6)]:
            job.result(5)
    assert order == list(range(6))
    assert max(most) == 1


def test_an_idle_judge_is_closed_and_opened_again(made) -> None:
    make, log = made
    with make(idle_seconds=0.05) as worker:
        worker.submit(ONE, lambda o: None).result(5)
        deadline = time.monotonic() + 5
        while worker.opened is not None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert worker.opened is None
        worker.submit(ONE, lambda o: None).result(5)
    assert [what for what, _ in log] == ["open", "close", "open", "close"]


def test_an_error_goes_to_who_asked_and_the_next_gets_a_fresh_judge(made) -> None:
    make, log = made

    def breaks(opened: Opened) -> None:
        raise JudgeError("a process was lost")

    with make() as worker:
        with pytest.raises(JudgeError, match="was lost"):
            worker.submit(ONE, breaks).result(5)
        assert worker.submit(ONE, lambda o: 7).result(5) == 7
    assert [what for what, _ in log] == ["open", "close", "open", "close"]


def test_a_judge_that_does_not_open_is_said() -> None:
    def refuses(task: Task) -> Opened:
        raise JudgeError("no room")

    with JudgeSessionWorker(refuses) as worker, pytest.raises(JudgeError, match="no room"):
        worker.submit(ONE, lambda o: None).result(5)


def test_closing_does_not_wait_for_a_judgement(made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.05)
    make, _ = made
    worker, release, started = make(), threading.Event(), threading.Event()

    def long(opened: Opened) -> None:
        started.set()
        release.wait(10)

    worker.submit(ONE, long)
    assert started.wait(5)
    waiting = worker.submit(ONE, lambda o: None)
    before = time.monotonic()
    worker.close()
    assert time.monotonic() - before < 2
    with pytest.raises(RuntimeError):
        worker.submit(ONE, lambda o: None)
    with pytest.raises(CancelledError):
        waiting.result(5)
    release.set()


def test_what_was_cancelled_is_not_done(made) -> None:
    make, _ = made
    release, done = threading.Event(), []
    with make() as worker:
        worker.submit(ONE, lambda o: release.wait(5))
        later = worker.submit(ONE, lambda o: done.append(1))
        assert later.cancel()
        release.set()
        worker.submit(ONE, lambda o: None).result(5)
    assert done == []
