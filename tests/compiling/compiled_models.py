"""The models that these tests compile, and the kernel that won for their tail; no conftest, whose name every folder has."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

SCALED_RELU = """\
// warpsmith-unit: 1
// family: pointwise   technique: scaled-relu
#include "task.h"
static void unit(const in0_t* in0, out0_t* out0, void*, void*) {
#pragma omp parallel for num_threads(THREADS)
  for (int64_t i = 0; i < out0_numel; ++i) { float v = in0[i] * 2.0f + SHIFT; out0[i] = v > 0 ? v : 0; }
}
"""


class Tail(nn.Module):
    """relu(2 x + 1): the task that was won."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x * 2.0 + 1.0)


class Net(nn.Module):
    """A model in which it occurs twice, among operations of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 32)
        self.tail = Tail()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.tail(self.second(self.tail(self.first(x)))), -1)
