"""Integral of a long two-channel signal, starting from zero: the value before each sample."""

import torch
import torch.nn as nn
import torch.nn.functional as F

channels = 2
length = 800000
rate = 0.01

VARIANTS = {
    "ragged": {"channels": 3, "length": 300007},
    "small": {"channels": 1, "length": 20000},
}


class Model(nn.Module):
    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        total = torch.cumsum(signal * self.rate, dim=-1)
        return F.pad(total, (1, 0))


def get_inputs():
    return [torch.randn(channels, length)]


def get_init_inputs():
    return [rate]
