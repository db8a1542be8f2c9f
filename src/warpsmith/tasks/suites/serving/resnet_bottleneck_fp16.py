"""A bottleneck of ResNet-50's second stage at inference, 32 images: three convolutions, each with its batch norm, and ReLU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

images = 32
channels = 512
inner = 128
side = 28

VARIANTS = {
    "ragged": {"images": 3, "channels": 120, "inner": 36, "side": 19},
    "small": {"images": 2, "channels": 32, "inner": 16, "side": 9},
}


def make_norm(channels: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(channels)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias)
    norm.running_mean.normal_(std=0.1)
    norm.running_var.uniform_(0.2, 0.8)
    return norm


class Model(nn.Module):
    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, inner, 1, bias=False)
        self.spread = nn.Conv2d(inner, inner, 3, padding=1, bias=False)
        self.expand = nn.Conv2d(inner, channels, 1, bias=False)
        self.reduce_norm, self.spread_norm = make_norm(inner), make_norm(inner)
        self.expand_norm = make_norm(channels)
        self.half().eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.reduce_norm(self.reduce(x)))
        h = F.relu(self.spread_norm(self.spread(h)))
        return F.relu(x + self.expand_norm(self.expand(h)))


def get_inputs():
    return [torch.randn(images, channels, side, side).half()]


def get_init_inputs():
    return [channels, inner]
