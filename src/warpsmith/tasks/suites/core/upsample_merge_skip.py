"""A decoder's merge: bilinear doubling of the coarse map, a gated skip connection added, SiLU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 4
channels = 24
side = 64

VARIANTS = {
    "ragged": {"batch": 3, "channels": 13, "side": 37},
    "small": {"batch": 1, "channels": 8, "side": 12},
}


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.randn(channels, 1, 1))

    def forward(self, coarse: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        fine = F.interpolate(coarse, scale_factor=2, mode="bilinear", align_corners=False)
        return F.silu(fine + skip * self.gate)


def get_inputs():
    return [torch.randn(batch, channels, side, side), torch.randn(batch, channels, 2 * side, 2 * side)]


def get_init_inputs():
    return [channels]
