"""Attention at decode over a cache in int8: keys and values are stored with a scale for each token and head, and scaled when read."""

import torch
import torch.nn as nn
import torch.nn.functional as F

sequences = 32
heads = 32
context = 2048
depth = 128

VARIANTS = {
    "ragged": {"sequences": 3, "heads": 5, "context": 217, "depth": 72},
    "small": {"sequences": 2, "heads": 4, "context": 24, "depth": 32},
}


class Model(nn.Module):
    def forward(
        self,
        query: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        key_scale: torch.Tensor,
        value_scale: torch.Tensor,
    ) -> torch.Tensor:
        key, value = keys.to(query.dtype) * key_scale, values.to(query.dtype) * value_scale
        return F.scaled_dot_product_attention(query, key, value)


def get_inputs():
    shape = (sequences, heads, context)
    return [
        torch.randn(sequences, heads, 1, depth).bfloat16(),
        torch.randint(-127, 128, (*shape, depth), dtype=torch.int8),
        torch.randint(-127, 128, (*shape, depth), dtype=torch.int8),
        (torch.randn(*shape, 1) / 64).bfloat16(),
        (torch.randn(*shape, 1) / 64).bfloat16(),
    ]


def get_init_inputs():
    return []
