"""Linear attention without a softmax over 4,096 tokens: keys and values meet in one matrix a head, which queries then read."""

import torch
import torch.nn as nn
import torch.nn.functional as F

heads = 16
tokens = 4096
depth = 64

VARIANTS = {
    "ragged": {"heads": 5, "tokens": 517, "depth": 40},
    "small": {"heads": 2, "tokens": 40, "depth": 16},
}


class Model(nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        query, key = F.elu(query.float()) + 1, F.elu(key.float()) + 1
        state = torch.matmul(key.transpose(-2, -1), value.float())
        total = torch.matmul(query, key.sum(dim=-2)[..., None])
        return (torch.matmul(query, state) / total).to(value.dtype)


def get_inputs():
    return [torch.randn(1, heads, tokens, depth).bfloat16() for _ in range(3)]


def get_init_inputs():
    return []
