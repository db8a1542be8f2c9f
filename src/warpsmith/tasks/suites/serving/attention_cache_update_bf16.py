"""Attention of Qwen 3 8B at decode with its cache written in place: new keys and values go to the position, then the token looks back."""

import torch
import torch.nn as nn
import torch.nn.functional as F

sequences = 16
heads = 32
groups = 8
context = 2048
depth = 128

VARIANTS = {
    "ragged": {"sequences": 3, "heads": 6, "groups": 3, "context": 317, "depth": 72},
    "small": {"sequences": 2, "heads": 4, "groups": 2, "context": 24, "depth": 32},
}


class Model(nn.Module):
    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        position: torch.Tensor,
    ) -> torch.Tensor:
        keys.index_copy_(2, position, key)
        values.index_copy_(2, position, value)
        seen = torch.arange(keys.shape[2], device=keys.device) <= position
        return F.scaled_dot_product_attention(query, keys, values, attn_mask=seen[None], enable_gqa=True)


def get_inputs():
    return [
        torch.randn(sequences, heads, 1, depth).bfloat16(),
        torch.randn(sequences, groups, 1, depth).bfloat16(),
        torch.randn(sequences, groups, 1, depth).bfloat16(),
        torch.randn(sequences, groups, context, depth).bfloat16(),
        torch.randn(sequences, groups, context, depth).bfloat16(),
        torch.randint(context // 2, context, (1,)),
    ]


def get_init_inputs():
    return []
