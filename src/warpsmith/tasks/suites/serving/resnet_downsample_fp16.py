"""The first block of ResNet-18's third stage at inference, 64 images: two 3 × 3 convolutions, the first in steps of two, a shortcut."""

import torch
import torch.nn as nn
import torch.nn.functional as F

images = 64
channels = 128
side = 28

VARIANTS = {
    "ragged": {"images": 3, "channels": 20, "side": 13},
    "small": {"images": 2, "channels": 16, "side": 8},
}


def make_norm(channels: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(channels)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias)
    norm.running_mean.normal_(std=0.1)
    norm.running_var.uniform_(0.2, 0.8)
    return norm


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1, bias=False)
        self.second = nn.Conv2d(2 * channels, 2 * channels, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(channels, 2 * channels, 1, stride=2, bias=False)
        self.first_norm, self.second_norm, self.shortcut_norm = (make_norm(2 * channels) for _ in range(3))
        self.half().eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(h)) + self.shortcut_norm(self.shortcut(x)))


def get_inputs():
    return [torch.randn(images, channels, side, side).half()]


def get_init_inputs():
    return [channels]
