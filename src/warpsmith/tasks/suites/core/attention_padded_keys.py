"""Library attention over keys of which some are padding: a boolean mask for each sequence, shared by its heads."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 4
heads = 8
queries = 128
keys = 256
features = 32

VARIANTS = {
    "ragged": {"batch": 3, "heads": 5, "queries": 83, "keys": 149},
    "small": {"batch": 2, "heads": 2, "queries": 24, "keys": 40},
}


class Model(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.sharpness = nn.Parameter(0.5 + torch.rand(heads, 1, 1))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q * self.sharpness, k, v, attn_mask=real)


def get_inputs():
    real = torch.rand(batch, 1, 1, keys) > 0.2
    real[..., 0] = True
    return [
        torch.randn(batch, heads, queries, features),
        torch.randn(batch, heads, keys, features),
        torch.randn(batch, heads, keys, features),
        real,
    ]


def get_init_inputs():
    return [heads]
