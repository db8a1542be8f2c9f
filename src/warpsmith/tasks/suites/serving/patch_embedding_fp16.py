"""The first layer of CLIP ViT-L/14 over 32 images: patches of 14 × 14 to tokens, one class token before, positions, LayerNorm."""

import torch
import torch.nn as nn

images = 32
side = 224
width = 1024

VARIANTS = {
    "ragged": {"images": 3, "side": 70, "width": 200},
    "small": {"images": 2, "side": 42, "width": 64},
}


class Model(nn.Module):
    def __init__(self, side: int, width: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 14, stride=14, bias=False)
        self.token = nn.Parameter(torch.randn(width))
        self.position = nn.Parameter(torch.randn((side // 14) ** 2 + 1, width))
        self.norm = nn.LayerNorm(width)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias, std=0.5)
        self.half()

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(pixels).flatten(2).transpose(1, 2)
        first = self.token.expand(tokens.shape[0], 1, -1)
        return self.norm(torch.cat([first, tokens], dim=1) + self.position)


def get_inputs():
    return [torch.randn(images, 3, side, side).half()]


def get_init_inputs():
    return [side, width]
