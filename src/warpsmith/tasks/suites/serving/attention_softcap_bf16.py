"""Causal attention of Gemma 2 9B at prefill, written out: scores are capped at 50 by a hyperbolic tangent before the softmax."""

import torch
import torch.nn as nn

heads = 16
tokens = 2048
depth = 256

VARIANTS = {
    "ragged": {"heads": 3, "tokens": 197},
    "small": {"heads": 2, "tokens": 40},
}


class Model(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.scale, self.cap = depth**-0.5, 50.0

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        scores = torch.matmul(query, key.transpose(-2, -1)).float() * self.scale
        capped = self.cap * torch.tanh(scores / self.cap)
        position = torch.arange(query.shape[2], device=query.device)
        capped = capped.masked_fill(position > position[:, None], float("-inf"))
        return torch.matmul(torch.softmax(capped, dim=-1).to(value.dtype), value)


def get_inputs():
    return [torch.randn(1, heads, tokens, depth).bfloat16() for _ in range(3)]


def get_init_inputs():
    return [depth]
