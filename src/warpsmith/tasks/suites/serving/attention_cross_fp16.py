"""Cross-attention of Stable Diffusion's U-Net at its largest resolution: 4,096 pixels look at 77 tokens of text, with all products."""

import torch
import torch.nn as nn
import torch.nn.functional as F

images = 4
pixels = 4096
width = 320
words = 77
text_width = 768
heads = 8

VARIANTS = {
    "ragged": {"images": 3, "pixels": 121, "width": 200, "words": 13, "text_width": 104},
    "small": {"images": 2, "pixels": 16, "width": 64, "words": 7, "text_width": 48},
}


class Model(nn.Module):
    def __init__(self, width: int, text_width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.key, self.value = (nn.Linear(text_width, width, bias=False) for _ in range(2))
        self.half()

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            h.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for h in (self.query(x), self.key(text), self.value(text))
        )
        mixed = F.scaled_dot_product_attention(query, key, value)
        return x + self.out(mixed.transpose(1, 2).flatten(2))


def get_inputs():
    return [torch.randn(images, pixels, width).half(), torch.randn(images, words, text_width).half()]


def get_init_inputs():
    return [width, text_width, heads]
