"""A decoder layer of GPT-2 XL at prefill: LayerNorm, one product for queries, keys and values, causal attention, GELU by tanh."""

import torch
import torch.nn as nn
import torch.nn.functional as F

prompts = 4
tokens = 1024
width = 1600
heads = 25

VARIANTS = {
    "ragged": {"prompts": 3, "tokens": 117, "width": 200, "heads": 5},
    "small": {"prompts": 2, "tokens": 20, "width": 128, "heads": 4},
}


class Model(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        for norm in (self.norm, self.mlp_norm):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias, std=0.5)
        self.half()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        qkv = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = qkv.unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x)), approximate="tanh"))


def get_inputs():
    return [torch.randn(prompts, tokens, width).half()]


def get_init_inputs():
    return [width, heads]
