"""Maximum over a dilated neighbourhood of a scan volume, every second voxel, then a leaky rectifier."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 2
channels = 12
depth = 32
side = 56

VARIANTS = {
    "ragged": {"batch": 1, "channels": 5, "depth": 19, "side": 37},
    "small": {"batch": 1, "channels": 3, "depth": 12, "side": 16},
}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.threshold = nn.Parameter(torch.rand(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        peak = F.max_pool3d(x, kernel_size=3, stride=2, padding=1, dilation=2)
        return F.leaky_relu(peak - self.threshold, 0.1)


def get_inputs():
    return [torch.randn(batch, channels, depth, side, side)]


def get_init_inputs():
    return []
