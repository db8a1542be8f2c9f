"""Rotary positions at decode, Llama 3 8B with 64 sequences: each row of queries and keys turns by its own position's angles."""

import torch
import torch.nn as nn

sequences = 64
heads = 32
groups = 8
positions = 8192
depth = 128

VARIANTS = {
    "ragged": {"sequences": 13, "heads": 7, "groups": 3, "positions": 517},
    "small": {"sequences": 4, "heads": 4, "groups": 2, "positions": 50},
}


def rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    first, second = x.float().unflatten(-1, (2, -1)).unbind(-2)
    turned = torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
    return turned.to(x.dtype)


class Model(nn.Module):
    def __init__(self, positions: int, depth: int) -> None:
        super().__init__()
        frequencies = 500000.0 ** (-torch.arange(0, depth, 2) / depth)
        angles = torch.outer(torch.arange(positions), frequencies)[:, None]
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, position: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        cosine, sine = self.cosine[position], self.sine[position]
        return rotate(query, cosine, sine), rotate(key, cosine, sine)


def get_inputs():
    return [
        torch.randn(sequences, heads, depth).bfloat16(),
        torch.randn(sequences, groups, depth).bfloat16(),
        torch.randint(0, positions, (sequences,)),
    ]


def get_init_inputs():
    return [positions, depth]
