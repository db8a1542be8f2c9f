"""Sessions: when a process gets other values at other addresses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from warpsmith.judge.timing.bench import Bench
from warpsmith.judge.timing.interleaved_rounds import WARMUP, ClocksDisagree, InterleavedRounds
from warpsmith.judge.timing.timed_process import Block


class Noting:
    """A process that answers at once, and says what it was asked."""

    expected, quiet = 1e-5, True

    def __init__(self, name: str) -> None:
        self.name, self.asked = name, []

    def prepare(self, values: Path, warmup: int, alone: bool = True) -> float:
        self.asked.append((str(values), warmup))
        return 0.0

    def again(self, warmup: int) -> None:
        self.asked.append(("again", warmup))

    def block(self, n: int, evictions: int, seed: int) -> Block:
        return Block((10,) * n, 0, 10 * n)

    def settle(self) -> None: ...

    def rest(self) -> None:
        self.asked.append(("rest", 0))


def asked(rounds: int, rests: bool = False, **options: Any) -> list[list[str]]:
    mine, other = Noting("candidate"), Noting("eager")
    values = [Path("a"), Path("b")]
    session = InterleavedRounds([mine, other], values, (), Path, cold=False, rests=rests, **options)  # type: ignore[list-item]
    session.run(rounds, [5, 5])
    assert all(warmup == WARMUP for name, warmup in mine.asked + other.asked if name != "rest")
    assert all(len(blocks) == rounds for blocks in session.blocks.values())
    return [[name for name, _ in p.asked] for p in (mine, other)]


@pytest.mark.parametrize(
    ("moves", "expected"),
    [(1, ["a", "b", "a", "b", "a"]), (2, ["a", "again", "b", "again", "a"]), (4, ["a", *["again"] * 3, "b"])],
)
def test_values_move_after_so_many_rounds(moves: int, expected: list[str]) -> None:
    assert asked(5, moves=moves) == [expected, expected]


def test_who_has_rested_is_prepared_anew() -> None:
    mine, other = asked(3, rests=True, moves=3)
    assert mine == ["a", "again", "again"]
    assert other == ["a", "rest"] * 3


@pytest.mark.parametrize(
    ("others_us", "charged_us"),
    [(4000, 0), (5900, 0), (8000, 2000)],  # usual; within what an idle pool may spin; a thread that computes
)
def test_other_threads_work_between_calls_is_charged(others_us: int, charged_us: int) -> None:
    session = InterleavedRounds([Noting("candidate"), Noting("eager")], [Path("a")], (), Path, cold=True)  # type: ignore[list-item]
    session.blocks["eager"] = [Block((10_000,) * 5, 0, 1, others_ns=4_000_000)] * 4
    session.blocks["candidate"] = [Block((10_000,) * 5, 0, 1, others_ns=others_us * 1000)] * 4
    session.charge_work_before_calls()
    assert [b.ns for b in session.blocks["candidate"]] == [(10_000 + charged_us * 1000,) * 5] * 4
    assert session.blocks["candidate"][0].charged_ns == 5 * charged_us * 1000


@pytest.mark.parametrize(("late_us", "charged_us"), [(30, 0), (40, 0), (100, 55)])
def test_work_between_the_last_change_and_the_start_is_charged(late_us: int, charged_us: int) -> None:
    session = InterleavedRounds([Noting("candidate"), Noting("eager")], [Path("a")], (), Path, cold=True)  # type: ignore[list-item]
    session.blocks["eager"] = [Block((10_000,) * 5, 0, 1, late_ns=20_000)] * 4
    session.blocks["candidate"] = [Block((10_000,) * 5, 0, 1, late_ns=late_us * 1000)] * 4
    session.charge_work_before_calls()
    assert [b.ns for b in session.blocks["candidate"]] == [(10_000 + charged_us * 1000,) * 5] * 4


def compare_with_batch(
    worked_share: float, check_clocks: Callable[[Any], Block]
) -> tuple[InterleavedRounds, Block]:
    """Calls of 20 µs by the device's clock, of which one takes 200 µs in a row."""
    session = InterleavedRounds([Noting("candidate")], [Path("a")], (), Path, cold=True)  # type: ignore[list-item]
    session.blocks["candidate"] = [Block((20_000,) * 5, 0, 1)] * 4
    batch = Block((200_000,) * 1000, 0, 203_000_000, worked_ns=round(worked_share * 203e6))
    bench: Any = SimpleNamespace(session=SimpleNamespace(check_clocks=check_clocks))
    return session, Bench._compare_with_batch(bench, session, session.processes[0], batch, 1)


def test_a_host_that_launches_slowly_is_charged_and_not_called_a_liar() -> None:
    slow = Block((200_000,) * 1000, 0, 203_000_000, worked_ns=200_000_000)
    session, batch = compare_with_batch(0.99, lambda _: slow)
    assert batch is slow
    assert session.blocks["candidate"][0].ns == (200_000,) * 5
    assert session.blocks["candidate"][0].charged_ns == 5 * 180_000


def test_one_slow_batch_of_a_fast_host_is_repeated() -> None:
    fast = Block((20_000,) * 1000, 0, 23_000_000, worked_ns=23_000_000)
    session, batch = compare_with_batch(0.99, lambda _: fast)
    assert batch is fast
    assert session.blocks["candidate"][0].ns == (20_000,) * 5


def test_a_host_that_sleeps_while_its_calls_take_long_is_refused() -> None:
    asleep = Block((200_000,) * 1000, 0, 203_000_000, worked_ns=20_000_000)
    with pytest.raises(ClocksDisagree, match="in a row"):
        compare_with_batch(0.1, lambda _: asleep)
