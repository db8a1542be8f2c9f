"""The feed-forward half of a Gemma 2 2B layer at prefill: RMSNorm before and after, gate and up products, GELU of the gate."""

import torch
import torch.nn as nn
import torch.nn.functional as F

tokens = 1024
width = 2304
hidden = 9216

VARIANTS = {
    "ragged": {"tokens": 117, "width": 600, "hidden": 1000},
    "small": {"tokens": 16, "width": 128, "hidden": 192},
}


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(0.1 * torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
        return (normed * (1 + self.gain.float())).to(x.dtype)


class Model(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.before, self.after = RMSNorm(width), RMSNorm(width)
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)
        self.bfloat16()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.before(x)
        return x + self.after(self.down(F.gelu(self.gate(h), approximate="tanh") * self.up(h)))


def get_inputs():
    return [torch.randn(tokens, width).bfloat16()]


def get_init_inputs():
    return [width, hidden]
