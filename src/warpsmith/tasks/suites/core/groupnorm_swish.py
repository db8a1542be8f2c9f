"""Group norm and Swish in front of a convolution, as in a residual block of an image diffusion model."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 4
channels = 128
side = 48
groups = 32

VARIANTS = {
    "ragged": {"batch": 3, "channels": 96, "side": 29},
    "small": {"batch": 1, "channels": 64, "side": 16},
}


class Model(nn.Module):
    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        nn.init.normal_(self.norm.weight)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.norm(x))


def get_inputs():
    return [torch.randn(batch, channels, side, side)]


def get_init_inputs():
    return [channels, groups]
