"""An image stem: 3×3 convolution of stride two from three colours, hard swish."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 4
colours = 3
filters = 32
height = 160
width = 160

VARIANTS = {
    "ragged": {"batch": 3, "filters": 27, "height": 61, "width": 97},
    "small": {"batch": 1, "filters": 16, "height": 48, "width": 48},
}


class Model(nn.Module):
    def __init__(self, colours: int, filters: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(colours, filters, 3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.hardswish(self.stem(x))


def get_inputs():
    return [torch.randn(batch, colours, height, width)]


def get_init_inputs():
    return [colours, filters]
