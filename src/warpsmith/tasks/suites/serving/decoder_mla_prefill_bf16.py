"""The attention half of a DeepSeek V2 Lite layer at prefill: keys and values lifted from normed latents, rotary apart in one key."""

import torch
import torch.nn as nn
import torch.nn.functional as F

tokens = 1024
width = 2048
heads = 16
latent = 512
depth = 128
rotary = 64

VARIANTS = {
    "ragged": {"tokens": 117, "width": 200, "heads": 3},
    "small": {"tokens": 20, "width": 64, "heads": 2},
}


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(1 + 0.1 * torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.gain


def rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat([-second, first], dim=-1) * sine


class Model(nn.Module):
    def __init__(self, tokens: int, width: int, heads: int, latent: int, depth: int, rotary: int) -> None:
        super().__init__()
        self.heads, self.split, self.lifted = heads, (depth, rotary), (depth, depth)
        self.norm, self.latent_norm = RMSNorm(width), RMSNorm(latent)
        self.query = nn.Linear(width, heads * (depth + rotary), bias=False)
        self.latent, self.rotary = (nn.Linear(width, n, bias=False) for n in (latent, rotary))
        self.lift = nn.Linear(latent, heads * 2 * depth, bias=False)
        self.out = nn.Linear(heads * depth, width, bias=False)
        angles = torch.outer(torch.arange(tokens), 10000.0 ** (-torch.arange(0, rotary, 2) / rotary))
        self.register_buffer("cosine", angles.repeat(1, 2).cos())
        self.register_buffer("sine", angles.repeat(1, 2).sin())
        self.bfloat16()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        query = self.query(h).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        lifted = self.lift(self.latent_norm(self.latent(h))).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        plain, turning = query.split(self.split, dim=-1)
        key, value = lifted.split(self.lifted, dim=-1)
        turned = rotate(self.rotary(h)[:, None], self.cosine, self.sine).expand(-1, self.heads, -1, -1)
        query = torch.cat([plain, rotate(turning, self.cosine, self.sine)], dim=-1)
        mixed = F.scaled_dot_product_attention(query, torch.cat([key, turned], dim=-1), value, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).flatten(2))


def get_inputs():
    return [torch.randn(1, tokens, width).bfloat16()]


def get_init_inputs():
    return [tokens, width, heads, latent, depth, rotary]
