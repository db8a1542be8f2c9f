"""A self-attention block with RMS norm, a causal mask and a residual. Products stay with the library."""

import math

import torch
import torch.nn as nn

batch_size = 2
tokens = 256
heads = 8
width = 256

VARIANTS = {
    "ragged": {"batch_size": 3, "tokens": 117, "heads": 5, "width": 160},
    "small": {"batch_size": 1, "tokens": 64, "heads": 2, "width": 64},
}


class Model(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.head_width = heads, width // heads
        self.gain = nn.Parameter(1.0 + 0.3 * torch.randn(width))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        h = x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-5) * self.gain
        qkv = self.qkv(h).view(batch, tokens, 3, self.heads, self.head_width).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_width)
        future = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).triu(1)
        weights = torch.softmax(scores.masked_fill(future, -1e4), dim=-1)
        y = (weights @ v).transpose(1, 2).reshape(batch, tokens, width)
        return x + self.out(y)


def get_inputs():
    return [torch.randn(batch_size, tokens, width)]


def get_init_inputs():
    return [width, heads]
