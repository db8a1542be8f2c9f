"""The feed-forward half of a decoder layer at decode, eight sequences at once: RMSNorm, gate and up products, SwiGLU, residual."""

import torch
import torch.nn as nn
import torch.nn.functional as F

sequences = 8
width = 4096
hidden = 14336

VARIANTS = {
    "ragged": {"sequences": 5, "width": 1000, "hidden": 2744},
    "small": {"sequences": 3, "width": 256, "hidden": 704},
}


class Model(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gain = nn.Parameter((1 + 0.1 * torch.randn(width)).bfloat16())
        self.gate, self.up = (nn.Linear(width, hidden, bias=False, dtype=torch.bfloat16) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        normed = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.gain
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


def get_inputs():
    return [torch.randn(sequences, width).bfloat16()]


def get_init_inputs():
    return [width, hidden]
