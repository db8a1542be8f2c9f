"""Causal attention of MPT-7B at prefill: no positions are embedded, but each head takes a slope times the distance off the scores."""

import torch
import torch.nn as nn

heads = 32
tokens = 2048
depth = 128

VARIANTS = {
    "ragged": {"heads": 5, "tokens": 197},
    "small": {"heads": 4, "tokens": 40},
}


class Model(nn.Module):
    def __init__(self, heads: int, depth: int) -> None:
        super().__init__()
        self.scale = depth**-0.5
        self.register_buffer("slope", 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)[:, None, None])

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        position = torch.arange(query.shape[2], device=query.device)
        distance = position - position[:, None]
        bias = (self.slope * distance).masked_fill(distance > 0, float("-inf"))
        scores = torch.matmul(query, key.transpose(-2, -1)) * self.scale + bias
        return torch.matmul(torch.softmax(scores, dim=-1).to(value.dtype), value)


def get_inputs():
    return [torch.randn(1, heads, tokens, depth).half() for _ in range(3)]


def get_init_inputs():
    return [heads, depth]
