"""Many compute together, one measures alone, and gets its turn."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from warpsmith import machine
from warpsmith.errors import JudgeError
from warpsmith.judge.device.device_lock import (
    FOLLOWS_SECONDS,
    REST_SECONDS,
    WAITING,
    DeviceLock,
    lock_file,
    try_flock,
)

PATIENCE = 5.0


def test_computing_is_shared() -> None:
    lock, together = DeviceLock(), threading.Barrier(3, timeout=PATIENCE)

    def work() -> None:
        with lock.hold_shared():
            together.wait()  # only if all three are inside at the same time

    with ThreadPoolExecutor(3) as pool:
        for job in [pool.submit(work) for _ in range(3)]:
            job.result(PATIENCE)


def test_measuring_is_alone_and_goes_first() -> None:
    lock, order = DeviceLock(), []
    inside, leave, queued = threading.Event(), threading.Event(), threading.Event()

    def compute(name: str) -> None:
        with lock.hold_shared():
            order.append(name)
            inside.set()
            assert leave.wait(PATIENCE)

    def measure() -> None:
        queued.set()
        with lock.hold_exclusive():
            order.append("measured")

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(compute, "first")
        assert inside.wait(PATIENCE)
        measured = pool.submit(measure)
        assert queued.wait(PATIENCE)
        end = time.monotonic() + PATIENCE
        while not lock._waiting and time.monotonic() < end:
            time.sleep(0.001)
        second = pool.submit(compute, "second")
        assert order == ["first"]
        leave.set()
        for job in (first, measured, second):
            job.result(PATIENCE)
    assert order == ["first", "measured", "second"]


def test_a_turn_ends_with_an_error() -> None:
    lock = DeviceLock()
    for kind in (lock.hold_exclusive, lock.hold_shared):
        try:
            with kind():
                raise ValueError
        except ValueError:
            pass
    with lock.hold_exclusive():
        pass


def test_a_turn_may_be_taken_again() -> None:
    lock = DeviceLock()
    with lock.hold_exclusive(), lock.hold_exclusive(), lock.hold_shared():
        pass
    waits = pytest.raises(RuntimeError, match="its own thread computes")
    with lock.hold_shared(), lock.hold_shared(), waits, lock.hold_exclusive():
        pass
    with lock.hold_exclusive():
        pass


def test_runs_share_a_file(tmp_path: Path) -> None:
    """Two locks opened apart, as two processes open them."""
    said: list[str] = []
    one, two = (DeviceLock(tmp_path / "gpu.lock", said.append) for _ in range(2))
    with one.hold_shared(), two.hold_shared():
        assert not said, "computing is shared"
    order, entered = [], threading.Event()

    def other(kind: str) -> None:
        entered.set()
        with getattr(two, kind)():
            order.append(kind)

    for kind in ("hold_shared", "hold_exclusive"):
        entered.clear()
        with ThreadPoolExecutor(1) as pool:
            with one.hold_exclusive():
                job = pool.submit(other, kind)
                assert entered.wait(PATIENCE)
                end = time.monotonic() + PATIENCE
                while not said and time.monotonic() < end:
                    time.sleep(0.001)
                order.append("alone")
            job.result(PATIENCE)
        assert order == ["alone", kind]
        assert set(said) == {WAITING}
        order.clear(), said.clear()


def test_a_measurement_of_another_run_goes_first(tmp_path: Path) -> None:
    first, measurer, late = (DeviceLock(tmp_path / "gpu.lock") for _ in range(3))
    order, inside, leave = [], threading.Event(), threading.Event()

    def compute(lock: DeviceLock, name: str) -> None:
        with lock.hold_shared():
            order.append(name)
            inside.set()
            assert leave.wait(PATIENCE)

    def measure() -> None:
        with measurer.hold_exclusive():
            order.append("measured")

    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(compute, first, "first")]
        assert inside.wait(PATIENCE)
        jobs.append(pool.submit(measure))
        end = time.monotonic() + PATIENCE
        while gate_free(tmp_path / "gpu.gate") and time.monotonic() < end:
            time.sleep(0.001)
        jobs.append(pool.submit(compute, late, "late"))
        time.sleep(0.05)
        assert order == ["first"], "who would compute waits behind who would measure"
        leave.set()
        for job in jobs:
            job.result(PATIENCE)
    assert order == ["first", "measured", "late"]


@pytest.mark.parametrize("apart", [False, True])
def test_what_computes_in_the_background_is_paused_for_a_measurement(apart: bool, tmp_path: Path) -> None:
    """Of its own run, or of another one that shares the file."""
    mine = DeviceLock(tmp_path / "gpu.lock")
    other = DeviceLock(tmp_path / "gpu.lock") if apart else mine
    running, said = threading.Event(), []

    def pause() -> None:
        running.clear()
        said.append("paused")

    with mine.run_in_background(pause, running.set):
        assert running.wait(PATIENCE)
        with mine.hold_shared(), mine.run_in_background(pause, running.set):
            assert running.is_set(), "whoever has a turn needs no other"
        for _ in range(2):
            with ThreadPoolExecutor(1) as pool:
                assert not pool.submit(measured, other, running).result(PATIENCE)
            assert running.wait(PATIENCE), "it goes on after the measurement"
    assert running.is_set()
    assert said == ["paused"] * 3, "first, and for each measurement"
    with other.hold_exclusive():
        assert said == ["paused"] * 3, "nothing is left to pause"


def test_two_in_the_background_both_give_way_to_another_run(tmp_path: Path) -> None:
    """Each begins again as soon as it was paused: were it let in while the other computes, one of them always would."""
    mine, other, done = DeviceLock(tmp_path / "lock"), DeviceLock(tmp_path / "lock"), threading.Event()

    def measure() -> None:
        for _ in range(5):
            with other.hold_exclusive():
                pass
        done.set()

    nothing = threading.Event().clear
    with ThreadPoolExecutor(1) as pool:
        with mine.run_in_background(nothing, nothing), mine.run_in_background(nothing, nothing):
            measures = pool.submit(measure)
            in_time = done.wait(10 * PATIENCE)
        measures.result(PATIENCE)
    assert in_time


def measured(lock: DeviceLock, running: threading.Event) -> bool:
    """Whether it ran at any time of a measurement."""
    with lock.hold_exclusive():
        return running.wait(0.2)


def gate_free(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_measurements_follow_one_another_and_then_others_go_on_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To stop all who compute takes time, too. Where nobody computes nobody is to be spared."""
    monkeypatch.setattr("warpsmith.judge.device.device_lock.REST_SECONDS", 3.0)
    monkeypatch.setattr("warpsmith.judge.device.device_lock.FOLLOWS_SECONDS", 0.5)
    path = tmp_path / "gpu.lock"
    one, two, computer = (DeviceLock(path) for _ in range(3))
    with one.hold_exclusive():
        pass
    start = time.monotonic()
    with two.hold_exclusive():
        pass
    assert time.monotonic() - start < 2.0, "nobody computes"
    running = threading.Event()
    with computer.run_in_background(running.clear, running.set):
        assert running.wait(PATIENCE)
        start = time.monotonic()
        with one.hold_exclusive():
            first = time.monotonic() - start
        with two.hold_exclusive():
            second = time.monotonic() - start
        assert first < 2.0, "it follows the one before at once"
        assert second < 2.0
        assert running.wait(PATIENCE)
        time.sleep(max(0.0, 0.7 - (time.monotonic() - start - second)))
        with one.hold_exclusive():
            third = time.monotonic() - start
        assert 2.0 < third - second < 20.0, "others had their time"


def test_who_waits_for_the_others_time_to_end_does_not_shut_the_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who computes would take it for somebody who wants to measure, and stop."""
    path = tmp_path / "gpu.lock"
    waits, computes = (DeviceLock(path)._file for _ in range(2))
    assert waits is not None
    assert computes is not None
    computes.acquire(exclusive=False)
    ended = time.time() - (FOLLOWS_SECONDS + REST_SECONDS) / 2
    os.utime(path.with_suffix(".gate"), (ended, ended))
    asked: list[tuple[int, int]] = []

    def seen(file: int, how: int) -> bool:
        asked.append((file, how & ~fcntl.LOCK_NB))
        return try_flock(file, how)

    monkeypatch.setattr("warpsmith.judge.device.device_lock.try_flock", seen)
    assert not waits._try(exclusive=True)
    assert asked == [(waits._main, fcntl.LOCK_EX), (waits._probe, fcntl.LOCK_SH)], "it only looks at the gate"
    os.utime(path.with_suffix(".gate"), (0, 0))
    assert not computes.is_wanted()
    waiter = threading.Thread(target=waits.acquire, args=(True,), daemon=True)
    waiter.start()
    end = time.monotonic() + PATIENCE
    while not computes.is_wanted() and time.monotonic() < end:
        time.sleep(0.01)
    assert computes.is_wanted(), "afterwards it does"
    computes.release()
    waiter.join(PATIENCE)
    assert not waiter.is_alive()


def test_who_would_measure_while_another_does_queues_behind_it(tmp_path: Path) -> None:
    """The gate is shut already: who queues stops nobody who would not have stopped."""
    path = tmp_path / "gpu.lock"
    measures, waits, computes = (DeviceLock(path)._file for _ in range(3))
    assert measures is not None
    assert waits is not None
    assert computes is not None
    measures.acquire(exclusive=True)
    ended = time.time() - (FOLLOWS_SECONDS + REST_SECONDS) / 2  # of the measurement before
    os.utime(path.with_suffix(".gate"), (ended, ended))
    taken: list[bool] = []
    waiter = threading.Thread(target=lambda: taken.append(waits._try(exclusive=True)), daemon=True)
    waiter.start()
    waiter.join(0.2)
    assert waiter.is_alive()
    measures.release()
    waiter.join(PATIENCE)
    assert taken == [True]
    assert not computes._try(exclusive=False), "it is alone"
    waits.release()


CONTENDER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_device_lock import measure_in_turn

measure_in_turn("other", Path(sys.argv[2]), int(sys.argv[3]))
"""


def measure_in_turn(name: str, path: Path, rounds: int) -> None:
    """Measure again and again; each measurement, but for the last, lasts until the other process stands in the queue."""
    lock, log = DeviceLock(path), path.with_suffix(".log")
    for remaining in reversed(range(rounds)):
        with lock.hold_exclusive():
            with log.open("a") as file:
                file.write(f"{name} ")
            if remaining:
                wait_until_locked(path.with_suffix(".queue"))


def test_a_process_that_waits_measures_before_one_that_measured(tmp_path: Path) -> None:
    """The kernel alone would let whoever releases the lock take it again and again."""
    path, rounds = tmp_path / "gpu.lock", 4
    command = [sys.executable, "-c", CONTENDER, str(Path(__file__).parent), str(path), str(rounds)]
    with subprocess.Popen(command) as other:
        measure_in_turn("mine", path, rounds)
        assert other.wait(10 * PATIENCE) == 0
    order = path.with_suffix(".log").read_text().split()
    assert order in (["mine", "other"] * rounds, ["other", "mine"] * rounds)


def test_who_has_waited_long_to_compute_stands_in_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measurements that follow one another without a pause do not keep it out."""
    monkeypatch.setattr("warpsmith.judge.device.device_lock.PATIENCE_SECONDS", 0.0)
    path = tmp_path / "gpu.lock"
    measures, computes = DeviceLock(path), DeviceLock(path)
    order: list[str] = []

    def compute() -> None:
        with computes.hold_shared():
            order.append("computes")

    with ThreadPoolExecutor(1) as pool:
        with measures.hold_exclusive():
            job = pool.submit(compute)
            wait_until_locked(path.with_suffix(".queue"))
        with measures.hold_exclusive():
            order.append("measures")
        job.result(PATIENCE)
    assert order == ["computes", "measures"]


def wait_until_locked(path: Path) -> None:
    end = time.monotonic() + 10 * PATIENCE
    while gate_free(path):
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_lock_is_of_a_gpu_and_not_of_its_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes see one GPU each, all as index 0."""
    gpus = [machine.Gpu("H100", uuid, "570", 80_000, "9.0") for uuid in ("GPU-a", "GPU-b")]
    files = []
    for gpu in (*gpus, gpus[0]):
        monkeypatch.setattr(machine, "gpu", lambda gpu=gpu: gpu)
        files.append(lock_file("cuda"))
    assert files[0] == files[2] != files[1]
    assert lock_file("cpu") is None


def test_a_lock_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "gpu.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JudgeError, match="cannot open"):
        DeviceLock(tmp_path / "gpu.lock")
    assert not (tmp_path / "elsewhere").exists()
