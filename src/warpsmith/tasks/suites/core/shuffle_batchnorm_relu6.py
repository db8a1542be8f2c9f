"""Inference in a mobile network: batch norm by running statistics, a channel shuffle over four groups, ReLU6."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 8
channels = 112
side = 28

VARIANTS = {
    "ragged": {"batch": 3, "channels": 92, "side": 19},
    "small": {"batch": 2, "channels": 40, "side": 12},
}


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        nn.init.normal_(self.norm.weight)
        nn.init.normal_(self.norm.bias)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2.0)
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        y = y.view(x.shape[0], 4, -1, x.shape[2], x.shape[3]).transpose(1, 2)
        return F.relu6(y.reshape(x.shape))


def get_inputs():
    return [torch.randn(batch, channels, side, side)]


def get_init_inputs():
    return [channels]
