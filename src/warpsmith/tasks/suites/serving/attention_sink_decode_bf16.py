"""Attention of gpt-oss 20B at decode, written out: a learned sink in each head takes part of the softmax and brings no value."""

import torch
import torch.nn as nn

sequences = 16
heads = 64
groups = 8
context = 1024
depth = 64

VARIANTS = {
    "ragged": {"sequences": 3, "heads": 6, "groups": 3, "context": 217},
    "small": {"sequences": 2, "heads": 4, "groups": 2, "context": 24},
}


class Model(nn.Module):
    def __init__(self, heads: int, groups: int, depth: int) -> None:
        super().__init__()
        self.scale = depth**-0.5
        self.sink = nn.Parameter((3 + torch.randn(groups, heads // groups, 1)).bfloat16())

    def forward(self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        query = query.unflatten(1, self.sink.shape[:2])
        scores = torch.matmul(query, keys.transpose(-2, -1)).float() * self.scale
        sink = self.sink.float().expand(*scores.shape[:3], 1)
        total = torch.logsumexp(torch.cat([scores, sink], dim=-1), dim=-1, keepdim=True)
        return torch.matmul(torch.exp(scores - total).to(values.dtype), values).flatten(1, 2)


def get_inputs():
    return [
        torch.randn(sequences, heads, depth).bfloat16(),
        torch.randn(sequences, groups, context, depth).bfloat16(),
        torch.randn(sequences, groups, context, depth).bfloat16(),
    ]


def get_init_inputs():
    return [heads, groups, depth]
