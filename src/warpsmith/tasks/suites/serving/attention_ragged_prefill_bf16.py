"""Causal attention of Qwen 2.5 7B over prompts packed without padding: a token looks back at those of its own prompt alone."""

import torch
import torch.nn as nn
import torch.nn.functional as F

tokens = 4096
prompts = 7
heads = 28
groups = 4
depth = 128

VARIANTS = {
    "ragged": {"tokens": 397, "prompts": 3, "heads": 6, "groups": 3, "depth": 72},
    "small": {"tokens": 48, "prompts": 2, "heads": 4, "groups": 2, "depth": 32},
}


class Model(nn.Module):
    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, prompt: torch.Tensor
    ) -> torch.Tensor:
        position = torch.arange(prompt.shape[0], device=prompt.device)
        mask = (prompt[:, None] == prompt) & (position[:, None] >= position)
        query, key, value = (x.transpose(0, 1)[None] for x in (query, key, value))
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True)
        return mixed[0].transpose(0, 1)


def get_inputs():
    return [
        torch.randn(tokens, heads, depth).bfloat16(),
        torch.randn(tokens, groups, depth).bfloat16(),
        torch.randn(tokens, groups, depth).bfloat16(),
        torch.randint(0, prompts, (tokens,)).sort().values,
    ]


def get_init_inputs():
    return []
