"""RMSNorm before an int8 product at prefill, Llama 3 8B: the normed rows in int8, each with the scale of its largest element."""

import torch
import torch.nn as nn

tokens = 2048
width = 4096

VARIANTS = {
    "ragged": {"tokens": 117, "width": 1001},
    "small": {"tokens": 16, "width": 128},
}


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter((1 + 0.1 * torch.randn(width)).bfloat16())

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        wide = x.float()
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5) * self.gain.float()
        scale = normed.abs().amax(dim=-1, keepdim=True).clamp(min=1e-8) / 127
        return torch.round(normed / scale).to(torch.int8), scale


def get_inputs():
    return [torch.randn(tokens, width).bfloat16()]


def get_init_inputs():
    return [width]
