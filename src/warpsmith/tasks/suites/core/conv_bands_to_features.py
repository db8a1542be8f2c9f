"""Four spectral bands, scaled by band, to sixteen features at every pixel: a 1×1 convolution between pointwise maps."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 4
bands = 4
features = 16
side = 192

VARIANTS = {
    "ragged": {"batch": 3, "bands": 5, "features": 13, "side": 71},
    "small": {"batch": 1, "bands": 4, "features": 8, "side": 32},
}


class Model(nn.Module):
    def __init__(self, bands: int, features: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(bands, 1, 1) + 0.5)
        self.project = nn.Conv2d(bands, features, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.leaky_relu(self.project(torch.tanh(x * self.scale)), 0.1)


def get_inputs():
    return [torch.randn(batch, bands, side, side)]


def get_init_inputs():
    return [bands, features]
