"""Causal self-attention of a small language model: scores of each head, masked above the diagonal, heads merged."""

import math

import torch
import torch.nn as nn

batch = 4
heads = 6
tokens = 192
features = 64

VARIANTS = {
    "ragged": {"batch": 3, "heads": 5, "tokens": 117},
    "small": {"batch": 1, "heads": 2, "tokens": 48},
}


class Model(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(0.5 + torch.rand(heads, 1, 1))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = q @ (k * self.gain).transpose(-2, -1) / math.sqrt(64)
        future = torch.triu(
            torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device), diagonal=1
        )
        mixed = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1) @ v
        return mixed.transpose(1, 2).contiguous().flatten(2)


def get_inputs():
    return [torch.randn(batch, heads, tokens, features) for _ in range(3)]


def get_init_inputs():
    return [heads]
