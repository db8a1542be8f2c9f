"""Layer normalisation over the last dimension, with learned scale and shift."""

import torch
import torch.nn as nn

batch_size = 2048
dim = 1024

VARIANTS = {
    "ragged": {"batch_size": 509, "dim": 1021},
    "small": {"batch_size": 64, "dim": 256},
}


class Model(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        nn.init.normal_(self.norm.weight, mean=1.0, std=0.3)
        nn.init.normal_(self.norm.bias, std=0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return [dim]
