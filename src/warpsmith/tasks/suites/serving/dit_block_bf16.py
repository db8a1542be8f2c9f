"""A block of DiT-XL/2 while it samples, four images: both halves modulated by the time and gated, attention and GELU by tanh."""

import torch
import torch.nn as nn
import torch.nn.functional as F

images = 4
tokens = 256
width = 1152
heads = 16

VARIANTS = {
    "ragged": {"images": 3, "tokens": 67, "width": 200, "heads": 5},
    "small": {"images": 2, "tokens": 16, "width": 64, "heads": 2},
}


class Model(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.modulation = nn.Linear(width, 6 * width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        nn.init.normal_(self.modulation.bias, std=0.5)
        self.bfloat16()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        parts = self.modulation(F.silu(time)).unflatten(-1, (6, 1, -1)).unbind(1)
        shift, scale, gate, mlp_shift, mlp_scale, mlp_gate = parts
        h = F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift
        qkv = self.qkv(h).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = qkv.unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value)
        x = x + gate * self.out(mixed.transpose(1, 2).flatten(2))
        h = F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + mlp_scale) + mlp_shift
        return x + mlp_gate * self.down(F.gelu(self.up(h), approximate="tanh"))


def get_inputs():
    return [torch.randn(images, tokens, width).bfloat16(), torch.randn(images, width).bfloat16()]


def get_init_inputs():
    return [width, heads]
