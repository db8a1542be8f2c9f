"""Queries and keys of a Qwen 3 layer at prefill: each head normed to unit mean square, scaled, and turned by its position."""

import torch
import torch.nn as nn

tokens = 2048
heads = 32
groups = 8
depth = 128

VARIANTS = {
    "ragged": {"tokens": 517},
    "small": {"tokens": 7},
}


def norm_and_rotate(
    x: torch.Tensor, gain: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor
) -> torch.Tensor:
    wide = x.float()
    normed = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * gain
    first, second = normed.chunk(2, dim=-1)
    return normed * cosine + torch.cat([-second, first], dim=-1) * sine


class Model(nn.Module):
    def __init__(self, tokens: int, heads: int, groups: int, depth: int) -> None:
        super().__init__()
        self.heads, self.groups, self.depth = heads, groups, depth
        self.query_gain, self.key_gain = (nn.Parameter(1 + 0.1 * torch.randn(depth)) for _ in range(2))
        frequencies = 1e6 ** (-torch.arange(0, depth, 2) / depth)
        angles = torch.outer(torch.arange(tokens), frequencies).repeat(1, 2)[:, None]
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())
        self.bfloat16()

    def forward(self, packed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        heads = packed.view(packed.shape[0], -1, self.depth)
        query, key = heads[:, : self.heads], heads[:, self.heads : self.heads + self.groups]
        return (
            norm_and_rotate(query, self.query_gain, self.cosine, self.sine),
            norm_and_rotate(key, self.key_gain, self.cosine, self.sine),
        )


def get_inputs():
    return [torch.randn(tokens, (heads + 2 * groups) * depth).bfloat16()]


def get_init_inputs():
    return [tokens, heads, groups, depth]
