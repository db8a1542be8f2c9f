"""A decoder layer of Mistral 7B at decode, eight sequences: the cache is a ring of the window's size, and the new token takes a place in it."""

import torch
import torch.nn as nn
import torch.nn.functional as F

sequences = 8
width = 4096
heads = 32
groups = 8
depth = 128
hidden = 14336
window = 4096

VARIANTS = {
    "ragged": {"sequences": 3, "width": 200, "heads": 6, "groups": 3, "hidden": 312, "window": 117},
    "small": {"sequences": 2, "width": 128, "heads": 4, "groups": 2, "hidden": 192, "window": 20},
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
        self.register_buffer("frequencies", 10000.0 ** (-torch.arange(0, depth, 2) / depth))

    def attend(
        self,
        x: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        position: torch.Tensor,
        place: torch.Tensor,
    ) -> torch.Tensor:
        query, key, value = (
            layer(x).view(x.shape[0], -1, 1, self.depth) for layer in (self.query, self.key, self.value)
        )
        angles = (position[:, None] * self.frequencies).repeat(1, 2)
        cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        keys.index_copy_(2, place, rotate(key, cosine, sine))
        values.index_copy_(2, place, value)
        return F.scaled_dot_product_attention(rotate(query, cosine, sine), keys, values, enable_gqa=True)

    def forward(
        self,
        x: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        position: torch.Tensor,
        place: torch.Tensor,
    ) -> torch.Tensor:
        h = x + self.out(self.attend(self.norm(x), keys, values, position, place).flatten(1))
        normed = self.mlp_norm(h)
        return h + self.down(F.silu(self.gate(normed)) * self.up(normed))


def get_inputs():
    return [
        torch.randn(sequences, width).bfloat16(),
        torch.randn(sequences, groups, window, depth).bfloat16(),
        torch.randn(sequences, groups, window, depth).bfloat16(),
        torch.randint(window, 4 * window, (1,)),
        torch.randint(0, window, (1,)),
    ]


def get_init_inputs():
    return [width, heads, groups, depth, hidden]
