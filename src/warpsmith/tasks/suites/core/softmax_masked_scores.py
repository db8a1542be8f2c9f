"""Softmax over the last dimension of scaled attention scores under a boolean mask shared by the heads."""

import torch
import torch.nn as nn

batch = 2
heads = 8
tokens = 256

VARIANTS = {
    "ragged": {"batch": 3, "heads": 5, "tokens": 149},
    "small": {"batch": 1, "heads": 4, "tokens": 64},
}


class Model(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(0.5 + torch.rand(heads, 1, 1))

    def forward(self, scores: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        scores = (scores * self.scale).masked_fill(~keep, -1.0e4)
        return torch.softmax(scores, dim=-1)


def get_inputs():
    return [torch.randn(batch, heads, tokens, tokens), torch.rand(batch, 1, tokens, tokens) > 0.25]


def get_init_inputs():
    return [heads]
