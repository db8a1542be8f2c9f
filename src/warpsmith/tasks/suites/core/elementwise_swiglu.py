"""SwiGLU with a learned per-channel scale: silu(gate) * up * scale."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 8
tokens = 256
width = 1024

VARIANTS = {
    "ragged": {"batch": 3, "tokens": 127, "width": 1021},
    "small": {"batch": 2, "tokens": 32, "width": 384},
}


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(width))

    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return F.silu(gate) * up * self.scale


def get_inputs():
    return [torch.randn(batch, tokens, width), torch.randn(batch, tokens, width)]


def get_init_inputs():
    return [width]
