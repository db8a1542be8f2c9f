"""Many small products: a mixing matrix for every item of a batch, a shared bias, ReLU."""

import torch
import torch.nn as nn

items = 1024
rows = 28
inner = 32
columns = 40

VARIANTS = {
    "ragged": {"items": 301, "rows": 17, "inner": 23, "columns": 35},
    "small": {"items": 16, "rows": 8, "inner": 8, "columns": 16},
}


class Model(nn.Module):
    def __init__(self, columns: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(columns))

    def forward(self, mixing: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.bmm(mixing, tokens) + self.bias)


def get_inputs():
    return [torch.randn(items, rows, inner), torch.randn(items, inner, columns)]


def get_init_inputs():
    return [columns]
