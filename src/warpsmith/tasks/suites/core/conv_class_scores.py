"""Class scores at every pixel by a 1×1 convolution, averaged over the image, then squashed: a convolutional classifier."""

import torch
import torch.nn as nn

batch = 32
channels = 512
classes = 96
side = 14

VARIANTS = {
    "ragged": {"batch": 5, "channels": 131, "classes": 37, "side": 11},
    "small": {"batch": 2, "channels": 32, "classes": 16, "side": 8},
}


class Model(nn.Module):
    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.score = nn.Conv2d(channels, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(4.0 * self.score(x).mean(dim=(2, 3)))


def get_inputs():
    return [torch.randn(batch, channels, side, side)]


def get_init_inputs():
    return [channels, classes]
