"""The residual sum and RMSNorm between two halves of a Llama 3 70B layer at prefill: both the sum and its normed rows go on."""

import torch
import torch.nn as nn

tokens = 4096
width = 8192

VARIANTS = {
    "ragged": {"tokens": 117, "width": 1001},
    "small": {"tokens": 16, "width": 128},
}


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter((1 + 0.1 * torch.randn(width)).bfloat16())

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        residual = x + residual
        wide = residual.float()
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
        return normed.to(x.dtype) * self.gain, residual


def get_inputs():
    return [torch.randn(tokens, width).bfloat16(), torch.randn(tokens, width).bfloat16()]


def get_init_inputs():
    return [width]
