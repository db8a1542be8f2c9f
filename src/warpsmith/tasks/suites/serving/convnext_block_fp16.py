"""A block of ConvNeXt-T's second stage over 32 images: depthwise 7x7, LayerNorm over channels, two products, layer scale."""

import torch
import torch.nn as nn
import torch.nn.functional as F

images = 32
channels = 192
side = 28

VARIANTS = {
    "ragged": {"images": 3, "channels": 77, "side": 19},
    "small": {"images": 2, "channels": 32, "side": 9},
}


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(0.5 + torch.rand(channels))
        for norm in (self.norm,):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias, std=0.5)
        self.half()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        h = self.scale * self.down(F.gelu(self.up(h)))
        return x + h.permute(0, 3, 1, 2)


def get_inputs():
    return [torch.randn(images, channels, side, side).half()]


def get_init_inputs():
    return [channels]
