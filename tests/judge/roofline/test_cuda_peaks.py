"""Peaks of a GPU: each rate is marked by whether the device had other work. No GPU is needed: its clock is scripted."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from warpsmith.judge.roofline import cuda_peaks, peaks
from warpsmith.judge.timing import cuda_clock

L2, FREE = 50 << 20, 80 << 30
SMALL, LARGE = L2 // 2, 2 << 30


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """`quiet`: what each look at the device says in turn, then that it is quiet."""
    state = SimpleNamespace(quiet=[], looks=0)

    def look(nothing: Any, seconds: float) -> bool:
        state.looks += 1
        return state.quiet.pop(0) if state.quiet else True

    cuda = SimpleNamespace(
        get_device_properties=lambda index: SimpleNamespace(L2_cache_size=L2),
        mem_get_info=lambda: (FREE, FREE),
    )
    fake = SimpleNamespace(zeros=lambda *_, **__: None, cuda=cuda, float32="float32", bfloat16="bfloat16")
    monkeypatch.setattr(cuda_peaks, "torch", fake)
    monkeypatch.setattr(cuda_peaks, "start_cuda", lambda: None)
    monkeypatch.setattr(cuda_peaks, "wait_until_quiet", look)
    monkeypatch.setattr(cuda_peaks, "_measure_cached_rate", lambda kind, size: 8e12)
    monkeypatch.setattr(cuda_peaks, "_measure_memory_rate", lambda kind, size: 3e12)
    monkeypatch.setattr(
        cuda_peaks, "_product", lambda dtype, n, tf32: 4e14 if tf32 else 8e14 if dtype == "bfloat16" else 5e13
    )

    class InThisProcess:
        def __init__(self, module: str, folder: Any) -> None:
            assert module == cuda_peaks.__name__

        def __enter__(self) -> InThisProcess:
            return self

        def __exit__(self, *_: object) -> None: ...

        def call(self, request: str, timeout: float) -> Any:
            return json.loads(json.dumps(cuda_peaks.handlers()[request]()))

    monkeypatch.setattr(peaks, "Worker", InThisProcess)
    return state


def test_cold_and_cached_rates_of_a_quiet_device(device: SimpleNamespace) -> None:
    measured = peaks._measure_gpu()
    assert not measured.busy
    assert measured.cold == {"read": 3e12, "copy": 3e12, "stream": 3e12}
    assert measured.cached == {SMALL: 8e12}
    assert (measured.flops, measured.tf32, measured.narrow, measured.last_cache) == (5e13, 4e14, 8e14, L2)
    assert device.looks == 2 * len(measured.rates), "before each rate, and after it"


def test_rates_beside_other_work_are_marked(device: SimpleNamespace) -> None:
    device.quiet = [False, True, False]  # before the first rate, after the second
    measured = peaks._measure_gpu()
    busy = {name for name, conditions in measured.conditions.items() if conditions.busy}
    assert busy == {f"read/{SMALL}", f"read/{LARGE}"}
    assert set(measured.quiet) == set(measured.rates) - busy
    assert measured.busy
    assert not measured.merge(peaks._measure_gpu()).busy


@pytest.mark.parametrize(
    ("milliseconds", "quiet"), [((0.01,), True), ((2.0, 2.0, 0.01), True), ((2.0,), False)]
)
def test_a_device_is_quiet_when_nothing_takes_no_time(
    monkeypatch: pytest.MonkeyPatch, milliseconds: tuple[float, ...], quiet: bool
) -> None:
    clock, script = [0.0], list(milliseconds)

    def synchronize() -> None:
        clock[0] += (script.pop(0) if len(script) > 1 else script[0]) / 1e3

    monkeypatch.setattr(cuda_clock.torch.cuda, "synchronize", synchronize)
    monkeypatch.setattr(
        cuda_clock,
        "time",
        SimpleNamespace(monotonic=lambda: clock[0], perf_counter_ns=lambda: int(clock[0] * 1e9)),
    )
    nothing: Any = SimpleNamespace(zero_=lambda: None)
    assert cuda_clock.wait_until_quiet(nothing, 1.0) == quiet
