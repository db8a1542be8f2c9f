"""Three groups of feature maps, each with an activation of its own, joined along the channels and padded by a border."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 4
channels = 32
side = 56

VARIANTS = {
    "ragged": {"batch": 3, "channels": 13, "side": 27},
    "small": {"batch": 1, "channels": 8, "side": 14},
}


class Model(nn.Module):
    def forward(self, trunk: torch.Tensor, grown: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        joined = torch.cat((F.relu(trunk), F.silu(grown), 0.5 * skip), dim=1)
        return F.pad(joined, (1, 1, 1, 1))


def get_inputs():
    wide = torch.randn(batch, 2 * channels, side, side)
    return [wide, torch.randn(batch, channels, side, side), torch.randn(batch, channels, side, side)]


def get_init_inputs():
    return []
