"""Maximum over the middle dimension (B, C, L) of a per-channel affine map: max-out over channels."""

import torch
import torch.nn as nn

batch = 32
channels = 64
length = 1024

VARIANTS = {
    "ragged": {"batch": 7, "channels": 53, "length": 1013},
    "small": {"batch": 4, "channels": 24, "length": 128},
}


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(channels, 1))
        self.bias = nn.Parameter(torch.randn(channels, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.amax(x * self.scale + self.bias, dim=1)


def get_inputs():
    return [torch.randn(batch, channels, length)]


def get_init_inputs():
    return [channels]
