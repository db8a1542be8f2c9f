"""A linear layer with a fused epilogue: SiLU, per-channel scale, residual."""

import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 1024
inputs = 128
outputs = 1024

VARIANTS = {
    "ragged": {"rows": 251, "inputs": 97, "outputs": 509},
    "small": {"rows": 64, "inputs": 64, "outputs": 128},
}


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.scale = nn.Parameter(torch.randn(outputs))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return F.silu(self.linear(x)) * self.scale + residual


def get_inputs():
    return [torch.randn(rows, inputs), torch.randn(rows, outputs)]


def get_init_inputs():
    return [inputs, outputs]
