"""Interleaved measurement of whole runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from warpsmith.composition import side_by_side
from warpsmith.composition.side_by_side import ROUNDS, measure_side_by_side, time_run


def test_rounds_are_interleaved_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that each run moves on by its own time."""
    now_ns, calls = [0.0], []
    monkeypatch.setattr(side_by_side.time, "perf_counter_ns", lambda: now_ns[0])
    monkeypatch.setattr(side_by_side.time, "monotonic", lambda: now_ns[0] / 1e9)
    monkeypatch.setattr(side_by_side, "read_queued_ns", lambda file: 0)

    def variant(name: str, milliseconds: float) -> Callable[[], Callable[[], None]]:
        def run() -> None:
            now_ns[0] += milliseconds * 1e6

        def make_ready() -> Callable[[], None]:
            calls.append(name)
            return run

        return make_ready

    variants = {"original": variant("original", 100), "all": variant("all", 50)}
    blocks = measure_side_by_side(variants, seconds=0.1, seed=0)
    assert len(calls) == 2 * ROUNDS[0]
    assert all(set(calls[n : n + 2]) == {"original", "all"} for n in range(0, len(calls), 2))
    assert calls[:2] != calls[2:4] or calls[:2] != calls[4:6] or calls[:2] != calls[6:8]
    ratio = blocks.compare("original", "all")
    assert ratio.median == pytest.approx(2)
    assert ratio.baseline == "original"
    calls.clear()
    measure_side_by_side(variants, seconds=1e9, seed=0)
    assert len(calls) == 2 * ROUNDS[1]


def test_time_that_a_run_waited_for_a_processor_is_not_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other programs took 300 of its 400 ms; what the thread waited before the run is not counted."""
    now_ns, queued_ns = [0.0], [7e6]

    def run() -> None:
        now_ns[0] += 400e6
        queued_ns[0] += 300e6

    monkeypatch.setattr(side_by_side.time, "perf_counter_ns", lambda: now_ns[0])
    monkeypatch.setattr(side_by_side, "read_queued_ns", lambda file: queued_ns[0])
    assert time_run(run) == 100e6
