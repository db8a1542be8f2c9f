"""The reference worker beside other runs on the same GPU."""

from __future__ import annotations

import pytest
import torch

from warpsmith.judge import reference


class Full:
    """A request that finds no memory `times` times."""

    def __init__(self, times: int) -> None:
        self.left, self.asked = times, 0

    def __call__(self, value: int) -> int:
        self.asked += 1
        if self.asked <= self.left:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return value


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> reference.Reference:
    monkeypatch.setattr(reference, "PAUSE", 0.0)
    monkeypatch.setattr(reference, "_idle_bytes", lambda: 0)
    made = reference.Reference()
    made._device = "cuda"
    return made


def test_a_request_that_finds_no_memory_waits_for_it(worker: reference.Reference) -> None:
    worker._kept["an", "earlier", "truth"] = []
    assert worker.tidied(Full(2))(value=7) == 7
    assert not worker._kept  # what others may have meanwhile


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_no_longer_than_others_may_take_and_not_on_a_processor(
    worker: reference.Reference, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    monkeypatch.setattr(reference, "PATIENCE", -1.0 if device == "cuda" else 60.0)
    worker._device, asked = device, Full(5)
    with pytest.raises(torch.OutOfMemoryError):
        worker.tidied(asked)(value=7)
    assert asked.asked == 1
