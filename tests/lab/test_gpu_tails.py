"""What `lab/gpu_tails.py` makes of tails; the tails themselves need a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

LAB = Path(__file__).resolve().parents[2] / "lab"


def test_blocks_that_would_be_charged_are_counted_as_the_clock_charges(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(LAB))
    from gpu_tails import line

    seen = [{"call": call, "empty": 8.0, "long": 12.0} for call in (14.9, 15.1, 19.9, 20.1)]
    said = line(14, seen)
    assert said.endswith("of 4 blocks 3 would be charged beside empty calls, 1 beside long ones")
    assert "call 17.5, empty 8.0, long 12.0" in said
