"""A decoder layer of a Llama of one billion parameters at prefill: RMSNorm, grouped-query attention with rotary, SwiGLU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

width = 2048
heads = 32
groups = 8
hidden = 8192
tokens = 1024

VARIANTS = {
    "ragged": {"width": 768, "heads": 12, "groups": 4, "hidden": 1552, "tokens": 197},
    "small": {"width": 256, "heads": 4, "groups": 2, "hidden": 384, "tokens": 64},
}


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(1 + 0.1 * torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.gain


def rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat([-second, first], dim=-1) * sine


class Model(nn.Module):
    def __init__(self, width: int, heads: int, groups: int, hidden: int, tokens: int) -> None:
        super().__init__()
        self.depth = width // heads
        self.norm, self.mlp_norm = RMSNorm(width), RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key, self.value = (nn.Linear(width, groups * self.depth, bias=False) for _ in range(2))
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)
        frequencies = 500000.0 ** (-torch.arange(0, self.depth, 2) / self.depth)
        angles = torch.outer(torch.arange(tokens), frequencies).repeat(1, 2)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())
        self.bfloat16()

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        rows, tokens, width = x.shape
        query, key, value = (
            layer(x).view(rows, tokens, -1, self.depth).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        query, key = rotate(query, self.cosine, self.sine), rotate(key, self.cosine, self.sine)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return mixed.transpose(1, 2).reshape(rows, tokens, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x + self.out(self.attend(self.norm(x)))
        normed = self.mlp_norm(h)
        return h + self.down(F.silu(self.gate(normed)) * self.up(normed))


def get_inputs():
    return [torch.randn(1, tokens, width).bfloat16()]


def get_init_inputs():
    return [width, heads, groups, hidden, tokens]
