"""Broadcasting along both axes: a column vector scales, a row vector shifts; tanh minus half the input."""

import torch
import torch.nn as nn

rows = 2048
columns = 1024

VARIANTS = {
    "ragged": {"rows": 769, "columns": 501},
    "small": {"rows": 100, "columns": 200},
}


class Model(nn.Module):
    def forward(self, x: torch.Tensor, row_scale: torch.Tensor, column_shift: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * row_scale + column_shift) - 0.5 * x


def get_inputs():
    return [torch.randn(rows, columns), torch.randn(rows, 1), torch.randn(1, columns)]


def get_init_inputs():
    return []
