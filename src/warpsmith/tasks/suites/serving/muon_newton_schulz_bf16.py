"""The iteration of Muon in training on a weight of 1,024 × 4,096: scaled by its norm, then five steps of Newton and Schulz in bfloat16."""

import torch
import torch.nn as nn

rows = 1024
columns = 4096

VARIANTS = {
    "ragged": {"rows": 67, "columns": 201},
    "small": {"rows": 16, "columns": 64},
}


class Model(nn.Module):
    def forward(self, momentum: torch.Tensor) -> torch.Tensor:
        norm = momentum.float().square().sum().sqrt() + 1e-7
        x = (momentum.float() / norm).bfloat16()
        for _ in range(5):
            square = x @ x.t()
            x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
        return x


def get_inputs():
    return [torch.randn(rows, columns).bfloat16()]


def get_init_inputs():
    return []
