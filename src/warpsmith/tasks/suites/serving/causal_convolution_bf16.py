"""The short convolution before the scan of Mamba-2 at prefill: each channel over its last four tokens, then SiLU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

prompts = 4
channels = 4352
tokens = 2048

VARIANTS = {
    "ragged": {"prompts": 3, "channels": 117, "tokens": 131},
    "small": {"prompts": 2, "channels": 32, "tokens": 20},
}


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(channels, channels, 4, groups=channels, dtype=torch.bfloat16)
        nn.init.normal_(self.convolution.bias, std=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.convolution(F.pad(x, (3, 0))))


def get_inputs():
    return [torch.randn(prompts, channels, tokens).bfloat16()]


def get_init_inputs():
    return [channels]
