"""The depthwise half of a mobile block: 3×3 convolution, folded batch statistics, clamp to six."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 4
channels = 96
height = 56
width = 56

VARIANTS = {
    "ragged": {"batch": 3, "height": 29, "width": 43},
    "small": {"batch": 1, "height": 14, "width": 14},
}


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.mean = nn.Parameter(torch.randn(channels) * 0.1)
        self.variance = nn.Parameter(torch.rand(channels) + 0.5)
        self.gain = nn.Parameter(torch.randn(channels) * 2 + 4)
        self.offset = nn.Parameter(torch.randn(channels) + 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.depthwise(x)
        return F.relu6(F.batch_norm(y, self.mean, self.variance, self.gain, self.offset, False))


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [channels]
