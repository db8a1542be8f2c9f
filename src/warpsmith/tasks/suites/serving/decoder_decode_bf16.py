"""A decoder layer of a Llama 3.2 1B at decode, 16 sequences: rotary by position, attention over the cache and the new token, SwiGLU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

sequences = 16
width = 2048
heads = 32
groups = 8
depth = 64
hidden = 8192
context = 1024

VARIANTS = {
    "ragged": {"sequences": 3, "width": 200, "heads": 6, "groups": 3, "hidden": 312, "context": 117},
    "small": {"sequences": 2, "width": 128, "heads": 4, "groups": 2, "hidden": 192, "context": 20},
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
    def __init__(self, width: int, heads: int, groups: int, depth: int, hidden: int) -> None:
        super().__init__()
        self.depth = depth
        self.norm, self.mlp_norm = RMSNorm(width), RMSNorm(width)
        self.query = nn.Linear(width, heads * depth, bias=False)
        self.key, self.value = (nn.Linear(width, groups * depth, bias=False) for _ in range(2))
        self.out = nn.Linear(heads * depth, width, bias=False)
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)
        self.bfloat16()
        self.register_buffer("frequencies", 500000.0 ** (-torch.arange(0, depth, 2) / depth))

    def attend(
        self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, position: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        query, key, value = (
            layer(x).view(x.shape[0], -1, 1, self.depth) for layer in (self.query, self.key, self.value)
        )
        angles = (position[:, None] * self.frequencies).repeat(1, 2)[:, None, None]
        cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        query, key = rotate(query, cosine, sine), rotate(key, cosine, sine)
        mixed = F.scaled_dot_product_attention(
            query, torch.cat([keys, key], dim=2), torch.cat([values, value], dim=2), enable_gqa=True
        )
        return mixed.flatten(1), key, value

    def forward(
        self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, position: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mixed, key, value = self.attend(self.norm(x), keys, values, position)
        h = x + self.out(mixed)
        normed = self.mlp_norm(h)
        return h + self.down(F.silu(self.gate(normed)) * self.up(normed)), key, value


def get_inputs():
    return [
        torch.randn(sequences, width).bfloat16(),
        torch.randn(sequences, groups, context, depth).bfloat16(),
        torch.randn(sequences, groups, context, depth).bfloat16(),
        torch.randint(context, 4 * context, (sequences,)),
    ]


def get_init_inputs():
    return [width, heads, groups, depth, hidden]
