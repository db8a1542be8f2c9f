"""Softmax over the channels of (B, C, L) at a temperature: elements of one row lie L apart in memory."""

import torch
import torch.nn as nn

batch = 16
channels = 128
length = 1024
temperature = 0.5

VARIANTS = {
    "ragged": {"batch": 5, "channels": 67, "length": 1009},
    "small": {"batch": 2, "channels": 32, "length": 96},
}


class Model(nn.Module):
    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x / self.temperature, dim=1)


def get_inputs():
    return [torch.randn(batch, channels, length)]


def get_init_inputs():
    return [temperature]
