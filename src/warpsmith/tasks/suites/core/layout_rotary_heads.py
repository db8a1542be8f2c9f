"""Rotary position embedding of queries, as in LLaMA: each half of a head is turned against the other by tabled angles."""

import torch
import torch.nn as nn

batch = 2
heads = 8
tokens = 512
width = 64

VARIANTS = {
    "ragged": {"batch": 3, "heads": 5, "tokens": 211},
    "small": {"batch": 1, "heads": 4, "tokens": 64},
}


class Model(nn.Module):
    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        frequency = 1.0 / 10000.0 ** (torch.arange(0, width, 2).float() / width)
        angle = torch.outer(torch.arange(tokens).float(), frequency)
        self.register_buffer("cosine", torch.cat((angle, angle), -1).cos())
        self.register_buffer("sine", torch.cat((angle, angle), -1).sin())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return x * self.cosine + torch.cat((-second, first), -1) * self.sine


def get_inputs():
    return [torch.randn(batch, heads, tokens, width)]


def get_init_inputs():
    return [tokens, width]
