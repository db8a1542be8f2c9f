"""A decoder layer of Falcon 7B at prefill: attention with one head of keys and values and the feed-forward half, both after one norm."""

import torch
import torch.nn as nn
import torch.nn.functional as F

tokens = 1024
width = 4544
heads = 71

VARIANTS = {
    "ragged": {"tokens": 117, "width": 200, "heads": 5},
    "small": {"tokens": 20, "width": 128, "heads": 4},
}


class Model(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias, std=0.5)
        self.query, self.out = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(width, width // heads, bias=False) for _ in range(2))
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)
        self.bfloat16()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        query = self.query(h).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        key, value = self.key(h)[:, None], self.value(h)[:, None]
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return x + self.out(mixed.transpose(1, 2).flatten(2)) + self.down(F.gelu(self.up(h)))


def get_inputs():
    return [torch.randn(1, tokens, width).bfloat16()]


def get_init_inputs():
    return [width, heads]
