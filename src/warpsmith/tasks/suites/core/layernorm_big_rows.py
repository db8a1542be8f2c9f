"""Layer normalisation over whole feature maps (C, H, W): few rows, each far larger than a cache level."""

import torch
import torch.nn as nn

batch = 16
channels = 64
side = 48

VARIANTS = {
    "ragged": {"batch": 5, "channels": 31, "side": 43},
    "small": {"batch": 3, "channels": 16, "side": 24},
}


class Model(nn.Module):
    def __init__(self, channels: int, side: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm((channels, side, side))
        nn.init.normal_(self.norm.weight)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs():
    return [torch.randn(batch, channels, side, side)]


def get_init_inputs():
    return [channels, side]
