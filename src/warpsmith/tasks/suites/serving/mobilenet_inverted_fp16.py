"""An inverted residual of MobileNetV2 at inference, 64 images: expansion by six, depthwise 3 × 3, projection, ReLU6 between."""

import torch
import torch.nn as nn
import torch.nn.functional as F

images = 64
channels = 64
side = 14

VARIANTS = {
    "ragged": {"images": 3, "channels": 20, "side": 13},
    "small": {"images": 2, "channels": 16, "side": 7},
}


def make_norm(channels: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(channels)
    nn.init.uniform_(norm.weight, 1, 3)
    nn.init.normal_(norm.bias)
    norm.running_mean.normal_(std=0.1)
    norm.running_var.uniform_(0.1, 0.4)
    return norm


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = 6 * channels
        self.expand = nn.Conv2d(channels, inner, 1, bias=False)
        self.depthwise = nn.Conv2d(inner, inner, 3, padding=1, groups=inner, bias=False)
        self.project = nn.Conv2d(inner, channels, 1, bias=False)
        self.expand_norm, self.depthwise_norm, self.project_norm = map(make_norm, (inner, inner, channels))
        self.half().eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.relu6(self.expand_norm(self.expand(x)))
        h = F.relu6(self.depthwise_norm(self.depthwise(h)))
        return x + self.project_norm(self.project(h))


def get_inputs():
    return [torch.randn(images, channels, side, side).half()]


def get_init_inputs():
    return [channels]
