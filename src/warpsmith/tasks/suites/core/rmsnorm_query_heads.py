"""Query normalisation of a transformer: the packed projection seen as heads, each scaled to unit mean square."""

import torch
import torch.nn as nn

batch = 4
tokens = 256
heads = 12
depth = 64
epsilon = 1.0e-4

VARIANTS = {
    "ragged": {"batch": 3, "tokens": 117, "heads": 7},
    "small": {"batch": 1, "tokens": 50, "heads": 4},
}


class Model(nn.Module):
    def __init__(self, depth: int, epsilon: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.randn(depth))
        self.epsilon = epsilon

    def forward(self, packed: torch.Tensor) -> torch.Tensor:
        q = packed.view(packed.shape[0], packed.shape[1], -1, self.gain.shape[0])
        scale = torch.rsqrt(q.square().mean(dim=-1, keepdim=True) + self.epsilon)
        return (q * scale * self.gain).reshape(packed.shape)


def get_inputs():
    return [torch.randn(batch, tokens, heads * depth)]


def get_init_inputs():
    return [depth, epsilon]
