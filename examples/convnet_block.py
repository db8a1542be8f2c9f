"""A small ConvNet block: convolution (library), batch norm in evaluation mode, SiLU, residual, averages."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 8
channels = 32
side = 48

VARIANTS = {
    "ragged": {"batch_size": 3, "channels": 19, "side": 29},
    "small": {"batch_size": 2, "channels": 8, "side": 16},
}


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size=3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        nn.init.normal_(self.norm.weight, mean=1.0, std=0.3)
        nn.init.normal_(self.norm.bias, std=0.3)
        nn.init.normal_(self.norm.running_mean, std=0.3)
        nn.init.uniform_(self.norm.running_var, 0.5, 1.5)
        self.eval()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = F.silu(self.norm(self.conv(x))) + x
        return y, y.mean(dim=(2, 3))


def get_inputs():
    return [torch.randn(batch_size, channels, side, side)]


def get_init_inputs():
    return [channels]
