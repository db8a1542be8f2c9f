"""A linear layer whose outputs are only ever added up: one score a row, scaled, through a sigmoid."""

import torch
import torch.nn as nn

rows = 512
inputs = 1024
outputs = 512

VARIANTS = {
    "ragged": {"rows": 251, "inputs": 389, "outputs": 127},
    "small": {"rows": 32, "inputs": 64, "outputs": 64},
}


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid((self.linear(x) / 4.0).sum(dim=1, keepdim=True) * 0.5)


def get_inputs():
    return [torch.randn(rows, inputs)]


def get_init_inputs():
    return [inputs, outputs]
