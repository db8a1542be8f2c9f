"""Token shift as in RWKV: each token is mixed, channel by channel, with the token before it."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 4
tokens = 512
width = 512

VARIANTS = {
    "ragged": {"batch": 3, "tokens": 201, "width": 330},
    "small": {"batch": 1, "tokens": 64, "width": 128},
}


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.rand(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = F.pad(x, (0, 0, 1, -1))
        return x * self.mix + before * (1.0 - self.mix)


def get_inputs():
    return [torch.randn(batch, tokens, width)]


def get_init_inputs():
    return [width]
