"""Many compute together, one measures alone, and gets its turn."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from warpsmith.judge.turns import Turns

PATIENCE = 5.0


def test_computing_is_shared() -> None:
    turns, together = Turns(), threading.Barrier(3, timeout=PATIENCE)

    def work() -> None:
        with turns.computing():
            together.wait()  # only if all three are inside at the same time

    with ThreadPoolExecutor(3) as pool:
        for job in [pool.submit(work) for _ in range(3)]:
            job.result(PATIENCE)


def test_measuring_is_alone_and_goes_first() -> None:
    turns, order = Turns(), []
    inside, leave, queued = threading.Event(), threading.Event(), threading.Event()

    def compute(name: str) -> None:
        with turns.computing():
            order.append(name)
            inside.set()
            assert leave.wait(PATIENCE)

    def measure() -> None:
        queued.set()
        with turns.measuring():
            order.append("measured")

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(compute, "first")
        assert inside.wait(PATIENCE)
        measured = pool.submit(measure)
        assert queued.wait(PATIENCE)
        end = time.monotonic() + PATIENCE
        while not turns._waiting and time.monotonic() < end:
            time.sleep(0.001)
        second = pool.submit(compute, "second")
        assert order == ["first"]
        leave.set()
        for job in (first, measured, second):
            job.result(PATIENCE)
    assert order == ["first", "measured", "second"]


def test_a_turn_ends_with_an_error() -> None:
    turns = Turns()
    for kind in (turns.measuring, turns.computing):
        try:
            with kind():
                raise ValueError
        except ValueError:
            pass
    with turns.measuring():
        pass
