"""Sliding-window attention of Mistral 7B at prefill: each token looks back at no more than the window, by a band of the mask."""

import torch
import torch.nn as nn
import torch.nn.functional as F

heads = 32
groups = 8
tokens = 4096
depth = 128
window = 1024

VARIANTS = {
    "ragged": {"heads": 6, "groups": 3, "tokens": 1205, "depth": 40},
    "small": {"heads": 2, "groups": 1, "tokens": 1100, "depth": 16},
}


class Model(nn.Module):
    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = window

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        position = torch.arange(query.shape[2], device=query.device)
        back = position[:, None] - position
        band = (back >= 0) & (back < self.window)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=band, enable_gqa=True)


def get_inputs():
    return [
        torch.randn(1, heads, tokens, depth).bfloat16(),
        torch.randn(1, groups, tokens, depth).bfloat16(),
        torch.randn(1, groups, tokens, depth).bfloat16(),
    ]


def get_init_inputs():
    return [window]
