"""Norm, activation and residual of a pre-norm block: x + gelu(layer_norm(x) * scale)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 8
tokens = 256
width = 768

VARIANTS = {
    "ragged": {"batch": 3, "tokens": 113, "width": 701},
    "small": {"batch": 2, "tokens": 40, "width": 256},
}


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.scale = nn.Parameter(torch.randn(width))
        nn.init.normal_(self.norm.weight)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + F.gelu(self.norm(x) * self.scale)


def get_inputs():
    return [torch.randn(batch, tokens, width)]


def get_init_inputs():
    return [width]
