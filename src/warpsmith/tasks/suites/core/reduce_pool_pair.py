"""Global average and maximum pooling of a SiLU activation, as in ConvNet attention gates: two outputs."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 16
channels = 128
side = 32

VARIANTS = {
    "ragged": {"batch": 5, "channels": 61, "side": 29},
    "small": {"batch": 2, "channels": 24, "side": 14},
}


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(channels, 1, 1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        active = F.silu(x + self.bias)
        return active.mean(dim=(2, 3)), active.amax(dim=(2, 3))


def get_inputs():
    return [torch.randn(batch, channels, side, side)]


def get_init_inputs():
    return [channels]
