"""How the same calls' times change: each is timed as often as asked, and its slowest and fastest are compared."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

LAB = Path(__file__).resolve().parents[2] / "lab"


@pytest.fixture
def machine_drift(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(LAB))
    import machine_drift

    return machine_drift


def test_every_call_is_timed_now_and_then(machine_drift: ModuleType) -> None:
    counts = dict.fromkeys(machine_drift.CALLS, 0)

    def count(name: str) -> None:
        counts[name] += 1

    calls = {name: (lambda name=name: count(name)) for name in machine_drift.CALLS}
    rows = machine_drift.watch(calls, 0.05, 0.01)
    assert len(rows) >= 2
    assert counts == {name: len(rows) * n for name, n in machine_drift.CALLS.items()}
    assert [r["at_s"] for r in rows] == sorted(r["at_s"] for r in rows)


def test_extremes_are_of_one_call_each(machine_drift: ModuleType) -> None:
    rows = [{"layernorm": 2.0, "copy": 1.0, "product": 3.0}, {"layernorm": 1.0, "copy": 4.0, "product": 3.0}]
    assert machine_drift.compare_extremes(rows) == {"layernorm": 2.0, "copy": 4.0, "product": 1.0}


def test_the_calls_are_what_the_page_says(machine_drift: ModuleType) -> None:
    calls = machine_drift.make_calls()
    assert {name: tuple(call().shape) for name, call in calls.items()} == {
        "layernorm": (2048, 1024), "copy": (machine_drift.COPIED,), "product": (2048, 256),
    }  # fmt: skip
