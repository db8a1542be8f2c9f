"""A decoder layer of Gemma 3 1B at prefill: norms before and after each half, normed queries and keys, a sliding window, GELU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

tokens = 2048
width = 1152
heads = 4
depth = 256
hidden = 6912
window = 512

VARIANTS = {
    "ragged": {"tokens": 597, "width": 200, "heads": 3, "hidden": 312},
    "small": {"tokens": 540, "width": 64, "heads": 2, "hidden": 96},
}


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(0.1 * torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
        return (normed * (1 + self.gain.float())).to(x.dtype)


def rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat([-second, first], dim=-1) * sine


class Model(nn.Module):
    def __init__(self, tokens: int, width: int, heads: int, depth: int, hidden: int, window: int) -> None:
        super().__init__()
        self.depth = depth
        self.before, self.after, self.mlp_before, self.mlp_after = (RMSNorm(width) for _ in range(4))
        self.query_norm, self.key_norm = RMSNorm(depth), RMSNorm(depth)
        self.query = nn.Linear(width, heads * depth, bias=False)
        self.key, self.value = (nn.Linear(width, depth, bias=False) for _ in range(2))
        self.out = nn.Linear(heads * depth, width, bias=False)
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)
        nn.init.normal_(self.down.weight, std=0.02 * hidden**-0.5)  # small, so that the norm's epsilon counts
        position = torch.arange(tokens)
        angles = torch.outer(position, 10000.0 ** (-torch.arange(0, depth, 2) / depth)).repeat(1, 2)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())
        self.bfloat16()
        back = position[:, None] - position
        self.register_buffer("band", (back >= 0) & (back < window))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            layer(x).unflatten(-1, (-1, self.depth)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        query = rotate(self.query_norm(query), self.cosine, self.sine)
        key = rotate(self.key_norm(key), self.cosine, self.sine)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=self.band, enable_gqa=True)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x + self.after(self.attend(self.before(x)))
        normed = self.mlp_before(h)
        mlp = self.down(F.gelu(self.gate(normed), approximate="tanh") * self.up(normed))
        return h + self.mlp_after(mlp)


def get_inputs():
    return [torch.randn(1, tokens, width).bfloat16()]


def get_init_inputs():
    return [tokens, width, heads, depth, hidden, window]
