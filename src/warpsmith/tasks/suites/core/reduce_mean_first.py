"""Mean over the first dimension of squared distances to a learned centre: a reduction down the columns."""

import torch
import torch.nn as nn

rows = 4096
width = 1024

VARIANTS = {
    "ragged": {"rows": 1031, "width": 509},
    "small": {"rows": 256, "width": 128},
}


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.centre = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mean((x - self.centre) ** 2, dim=0)


def get_inputs():
    return [torch.randn(rows, width)]


def get_init_inputs():
    return [width]
