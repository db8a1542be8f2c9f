"""A step of Adam in training, functional: from a gradient in bfloat16 a new weight and new moments in float32, 16 million of each."""

import torch
import torch.nn as nn

rows = 4096
columns = 4096

VARIANTS = {
    "ragged": {"rows": 131, "columns": 517},
    "small": {"rows": 16, "columns": 64},
}


class Model(nn.Module):
    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.register_buffer("second", 0.1 + torch.rand(rows, columns))

    def forward(
        self, gradient: torch.Tensor, weight: torch.Tensor, first: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        wide = gradient.float()
        first = 0.9 * first + 0.1 * wide
        second = 0.95 * self.second + 0.05 * wide.square()
        step = (first / (1 - 0.9**20)) / (torch.sqrt(second / (1 - 0.95**20)) + 1e-8)
        return weight - 0.1 * step, first, second


def get_inputs():
    return [
        torch.randn(rows, columns).bfloat16(),
        torch.randn(rows, columns),
        0.3 * torch.randn(rows, columns),
    ]


def get_init_inputs():
    return [rows, columns]
