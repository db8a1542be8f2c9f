"""Unbiased variance over the token dimension (B, T, D) after a per-feature scale."""

import torch
import torch.nn as nn

batch = 8
tokens = 256
width = 1024

VARIANTS = {
    "ragged": {"batch": 3, "tokens": 131, "width": 1019},
    "small": {"batch": 2, "tokens": 48, "width": 160},
}


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.var(x * self.scale, dim=1)


def get_inputs():
    return [torch.randn(batch, tokens, width)]


def get_init_inputs():
    return [width]
