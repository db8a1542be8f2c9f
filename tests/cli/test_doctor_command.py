"""`warpsmith doctor`: what is known of this machine's peak rates, for people and programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from warpsmith import doctor
from warpsmith.judge.roofline import peaks as peaks_module
from warpsmith.judge.roofline.peaks import Conditions, Peaks

RATES = {128 << 10: 200e9, 256 << 20: 20e9}


def measured(busy: bool) -> Peaks:
    peaks = Peaks(threads=2, read=RATES, copy_=RATES, stream=RATES, flops=1e11, last_cache=32 << 20)
    conditions = Conditions(measured_at="2026-11-25T06:00:00+00:00", waited=0.5 if busy else 0.02, busy=busy)
    quiet = () if busy else tuple(peaks.rates)
    return peaks.model_copy(update={"conditions": dict.fromkeys(peaks.rates, conditions), "quiet": quiet})


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """No other findings, no GPU; whether the next measurements are busy."""
    script: list[bool] = []
    monkeypatch.setattr(doctor, "findings", lambda config, target: [("python", True, "3")])
    monkeypatch.setattr(doctor.machine, "gpu", lambda: None)
    monkeypatch.setattr(peaks_module, "_measure", lambda compiler, threads: measured(script.pop(0)))
    return script


def test_peaks_are_shown_with_their_conditions_once_they_are_measured(
    command: Any, checks: list[bool]
) -> None:
    assert (
        "peaks of cpu: none measured yet: the next run measures them, as does `warpsmith doctor --peaks`"
        in command("doctor")[1]
    )
    checks += [False]
    code, out, _ = command("doctor", "--peaks")
    assert code == 0
    assert (
        "peaks of cpu: memory 20.0 GB/s (read 20.0, copy 20.0, stream 20.0); cached 128 KiB 200 GB/s; FP32 100 GFLOP/s; peaks "
        f"{measured(False).used.key} of 2026-11-25T06:00:00+00:00: 2 threads, quiet machine, at most 2% of the time in run queues\n"
    ) in out
    assert command("doctor", "--peaks")[1] == out, "a quiet measurement is not repeated"
    assert command("doctor")[1] == out


def test_a_busy_measurement_says_so(command: Any, checks: list[bool]) -> None:
    checks += [True] * peaks_module.ATTEMPTS
    _, out, err = command("doctor", "--peaks")
    assert "busy machine, at most 50% of the time in run queues, the next run measures again" in out
    assert "measuring its peak rates again (3 of 3)" in err


def test_programs_get_numbers(command: Any, checks: list[bool], tmp_path: Path) -> None:
    checks += [False]
    rows = json.loads(command("doctor", "--peaks", "--json", "-")[1])
    (row,) = (r for r in rows if r["what"] == "peaks of cpu")
    assert row["ok"]
    assert row["peaks"]["cold"] == {"read": 20e9, "copy": 20e9, "stream": 20e9}
    assert row["peaks"]["cached"] == {str(128 << 10): 200e9}
    assert (row["peaks"]["fp32"], row["peaks"]["threads"], row["peaks"]["busy"]) == (1e11, 2, False)
    assert row["peaks"]["conditions"]["flops"]["waited"] == 0.02
