"""Attention of Llama 3 8B at decode: one new token in each of 32 sequences looks at its cache, as far as it is filled."""

import torch
import torch.nn as nn
import torch.nn.functional as F

sequences = 32
heads = 32
groups = 8
context = 4096
depth = 128

VARIANTS = {
    "ragged": {"sequences": 3, "heads": 6, "groups": 3, "context": 517, "depth": 72},
    "small": {"sequences": 2, "heads": 4, "groups": 2, "context": 40, "depth": 32},
}


class Model(nn.Module):
    def forward(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        filled = torch.arange(keys.shape[2], device=keys.device) < lengths[:, None, None, None]
        return F.scaled_dot_product_attention(query, keys, values, attn_mask=filled, enable_gqa=True)


def get_inputs():
    return [
        torch.randn(sequences, heads, 1, depth).bfloat16(),
        torch.randn(sequences, groups, context, depth).bfloat16(),
        torch.randn(sequences, groups, context, depth).bfloat16(),
        torch.randint(context // 4, context + 1, (sequences,)),
    ]


def get_init_inputs():
    return []
