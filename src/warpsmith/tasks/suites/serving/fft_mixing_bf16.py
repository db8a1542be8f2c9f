"""The mixing of FNet's layer over 512 tokens: the real part of a Fourier transform over tokens and channels, residual, LayerNorm."""

import torch
import torch.nn as nn

sentences = 16
tokens = 512
width = 768

VARIANTS = {
    "ragged": {"sentences": 3, "tokens": 67, "width": 90},
    "small": {"sentences": 2, "tokens": 16, "width": 32},
}


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-12)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias, std=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        mixed = torch.fft.fft2(wide, norm="ortho").real
        return self.norm(wide + mixed).to(x.dtype)


def get_inputs():
    return [torch.randn(sentences, tokens, width).bfloat16()]


def get_init_inputs():
    return [width]
