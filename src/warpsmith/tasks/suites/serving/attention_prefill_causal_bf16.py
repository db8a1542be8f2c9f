"""Causal attention of Llama 3 8B at prefill, one prompt of 2,048 tokens: 32 query heads share 8 heads of keys and values."""

import torch
import torch.nn as nn
import torch.nn.functional as F

prompts = 1
heads = 32
groups = 8
tokens = 2048
depth = 128

VARIANTS = {
    "ragged": {"heads": 6, "groups": 3, "tokens": 197, "depth": 40},
    "small": {"heads": 4, "groups": 2, "tokens": 48, "depth": 32},
}


class Model(nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)


def get_inputs():
    return [
        torch.randn(prompts, heads, tokens, depth).bfloat16(),
        torch.randn(prompts, groups, tokens, depth).bfloat16(),
        torch.randn(prompts, groups, tokens, depth).bfloat16(),
    ]


def get_init_inputs():
    return []
