"""Attention of Llama 3 8B at decode over a paged cache: each sequence collects its blocks of 16 tokens by the block table."""

import torch
import torch.nn as nn
import torch.nn.functional as F

sequences = 32
heads = 32
groups = 8
blocks = 4096
blocks_each = 128
block = 16
depth = 128

VARIANTS = {
    "ragged": {"sequences": 3, "heads": 6, "groups": 3, "blocks": 57, "blocks_each": 9, "depth": 72},
    "small": {"sequences": 2, "heads": 4, "groups": 2, "blocks": 12, "blocks_each": 4, "depth": 32},
}


class Model(nn.Module):
    def forward(
        self,
        query: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        table: torch.Tensor,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        key, value = (
            pool.index_select(0, table.flatten()).unflatten(0, table.shape).flatten(1, 2).transpose(1, 2)
            for pool in (keys, values)
        )
        filled = torch.arange(key.shape[2], device=key.device) < lengths[:, None, None, None]
        return F.scaled_dot_product_attention(query, key, value, attn_mask=filled, enable_gqa=True)


def get_inputs():
    return [
        torch.randn(sequences, heads, 1, depth).bfloat16(),
        torch.randn(blocks, block, groups, depth).bfloat16(),
        torch.randn(blocks, block, groups, depth).bfloat16(),
        torch.randint(0, blocks, (sequences, blocks_each)),
        torch.randint(block, blocks_each * block + 1, (sequences,)),
    ]


def get_init_inputs():
    return []
