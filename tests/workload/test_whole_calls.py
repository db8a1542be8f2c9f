"""Which calls of a captured run are captured as a whole: most of the time, alike, with results that can be copied."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from warpsmith.config import Config
from warpsmith.workload import recording
from warpsmith.workload.capturing import record_calls
from warpsmith.workload.recorder import CallGroup


class Model(nn.Module):
    """A trunk of two blocks, and a head whose results are large."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.head = nn.Sequential(nn.Linear(8, 8), nn.Tanh()), nn.Linear(8, 1000)

    def forward(self, x: torch.Tensor, times: int = 1) -> torch.Tensor:
        for _ in range(times):
            x = self.trunk(x)
        return self.head(x)


def find_paths(
    monkeypatch: pytest.MonkeyPatch,
    seconds: dict[str, float],
    most_bytes: int = 1 << 20,
    model: nn.Module | None = None,
) -> list[str]:
    """`seconds`: of a call, by class; no clock is asked."""

    def estimate_s(groups: list[CallGroup]) -> float:
        return sum(seconds[type(g.module).__name__] * len(g.times_s) for g in groups)

    monkeypatch.setattr(recording, "GRAPHED", ("cpu",))
    monkeypatch.setattr(recording, "_estimate_s", estimate_s)
    monkeypatch.setattr(recording, "MOST_COPIED_BYTES", most_bytes)
    model = model or Model().eval()
    with torch.no_grad(), record_calls(model, Config.load({})) as seen:
        model(torch.randn(4, 8))
    calls = seen.find_whole_calls()
    assert all(example.args[0].shape == (4, 8) for _, example in calls)
    return [path for region, _ in calls for path in region.paths]


MOSTLY_TRUNK = {"Model": 1.0, "Sequential": 0.85, "Linear": 0.1, "Tanh": 0.1}


def test_most_of_a_model_stands_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_paths(monkeypatch, MOSTLY_TRUNK) == ["trunk", ""]
    assert find_paths(monkeypatch, MOSTLY_TRUNK | {"Sequential": 0.7}) == ["", "trunk"]


def test_results_that_are_too_large_to_copy_leave_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_paths(monkeypatch, MOSTLY_TRUNK | {"Sequential": 0.6}, most_bytes=4000) == ["trunk"]
    assert find_paths(monkeypatch, MOSTLY_TRUNK | {"Sequential": 0.4}, most_bytes=4000) == []


def test_training_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_paths(monkeypatch, MOSTLY_TRUNK, model=Model().train()) == []
