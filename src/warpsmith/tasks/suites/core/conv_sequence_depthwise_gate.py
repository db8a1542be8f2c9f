"""Short depthwise convolution along a sequence, activated and gated, as in state-space language models."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 2
channels = 256
steps = 2048

VARIANTS = {
    "ragged": {"batch": 3, "steps": 1021},
    "small": {"batch": 1, "steps": 128},
}


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.mix = nn.Conv1d(channels, channels, 5, padding=2, groups=channels)

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        return F.silu(self.mix(x)) * torch.sigmoid(gate)


def get_inputs():
    return [torch.randn(batch, channels, steps), torch.randn(batch, channels, steps)]


def get_init_inputs():
    return [channels]
