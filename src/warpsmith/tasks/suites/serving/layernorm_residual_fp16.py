"""The end of a half of a BERT-large layer at inference: bias and residual are added, then LayerNorm over 1,024 channels."""

import torch
import torch.nn as nn

tokens = 8192
width = 1024

VARIANTS = {
    "ragged": {"tokens": 117, "width": 517},
    "small": {"tokens": 16, "width": 128},
}


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))
        self.norm = nn.LayerNorm(width, eps=1e-12)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias, std=0.5)
        self.half()

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.bias + residual)


def get_inputs():
    return [torch.randn(tokens, width).half(), torch.randn(tokens, width).half()]


def get_init_inputs():
    return [width]
