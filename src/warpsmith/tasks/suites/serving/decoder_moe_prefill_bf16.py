"""A decoder layer like Mixtral's at a quarter of its width, prefill: rotary attention in groups, then eight experts, computed densely."""

import torch
import torch.nn as nn
import torch.nn.functional as F

tokens = 512
width = 1024
heads = 8
groups = 2
depth = 128
hidden = 3584
experts = 8
chosen = 2

VARIANTS = {
    "ragged": {"tokens": 67, "width": 136, "heads": 6, "groups": 3, "hidden": 200},
    "small": {"tokens": 16, "width": 64, "heads": 2, "groups": 1, "hidden": 96},
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


class Mixture(nn.Module):
    def __init__(self, width: int, hidden: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(width, experts, bias=False)
        self.gate, self.up = (
            nn.Parameter(torch.randn(experts, width, hidden) / width**0.5) for _ in range(2)
        )
        self.down = nn.Parameter(torch.randn(experts, hidden, width) / hidden**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, expert = torch.softmax(self.router(x).float(), dim=-1).topk(self.chosen, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        share = torch.zeros_like(weights[:, :1]).expand(-1, self.gate.shape[0]).scatter(-1, expert, weights)
        hidden = F.silu(torch.matmul(x, self.gate)) * torch.matmul(x, self.up)
        return (torch.matmul(hidden, self.down) * share.t()[..., None].to(x.dtype)).sum(dim=0)


class Model(nn.Module):
    def __init__(
        self,
        tokens: int,
        width: int,
        heads: int,
        groups: int,
        depth: int,
        hidden: int,
        experts: int,
        chosen: int,
    ) -> None:
        super().__init__()
        self.depth = depth
        self.norm, self.mixture_norm = RMSNorm(width), RMSNorm(width)
        self.query = nn.Linear(width, heads * depth, bias=False)
        self.key, self.value = (nn.Linear(width, groups * depth, bias=False) for _ in range(2))
        self.out = nn.Linear(heads * depth, width, bias=False)
        self.mixture = Mixture(width, hidden, experts, chosen)
        angles = torch.outer(torch.arange(tokens), 1e6 ** (-torch.arange(0, depth, 2) / depth)).repeat(1, 2)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())
        self.bfloat16()

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            layer(x).unflatten(-1, (-1, self.depth)).transpose(0, 1)[None]
            for layer in (self.query, self.key, self.value)
        )
        query, key = rotate(query, self.cosine, self.sine), rotate(key, self.cosine, self.sine)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.out(mixed[0].transpose(0, 1).flatten(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x + self.attend(self.norm(x))
        return h + self.mixture(self.mixture_norm(h))


def get_inputs():
    return [torch.randn(tokens, width).bfloat16()]


def get_init_inputs():
    return [tokens, width, heads, groups, depth, hidden, experts, chosen]
