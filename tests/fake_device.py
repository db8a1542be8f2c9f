"""A device that records and replays as a GPU does, on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from warpsmith.runtime.graph_replays import GraphReplays, Leaves, Replay


@dataclass
class Recorded:
    function: Callable[[], Leaves]
    leaves: Leaves

    def replay(self) -> None:
        for leaf, now in zip(self.leaves, self.function(), strict=True):
            if isinstance(leaf, Tensor):
                with torch.inference_mode():  # a graph writes to memory, whatever the mode
                    leaf.copy_(now)


@dataclass
class FakeDevice:
    """Records as a GPU does: nothing runs at first, and a replay writes to the leaves of the recording."""

    state: list[Tensor] = field(default_factory=list)  # what a call may update
    capturing: bool = False
    current: int = 0
    fault: str = ""
    captures: int = 0

    def is_capturing(self) -> bool:
        return self.capturing

    def stream(self) -> tuple[int, int]:
        return 0, self.current

    def capture(self, function: Callable[[], Leaves]) -> tuple[Replay, Leaves]:
        if self.fault:
            raise RuntimeError(self.fault)
        self.captures += 1
        before = [t.clone() for t in self.state]
        leaves = function()
        for tensor, content in zip(self.state, before, strict=True):
            tensor.copy_(content)
        return Recorded(function, leaves), leaves


class ReplaysOfState(GraphReplays):
    """On a device of the test, where any input may be updated."""

    def __call__(self, inputs: Sequence[Tensor]) -> Leaves:
        assert isinstance(self._device, FakeDevice)
        self._device.state = list(inputs)
        return super().__call__(inputs)
