"""An encoder block of ViT-B/16 over a batch of 32 images: pre-norm attention and a GELU feed-forward."""

import torch
import torch.nn as nn
import torch.nn.functional as F

images = 32
tokens = 197
width = 768
heads = 12

VARIANTS = {
    "ragged": {"images": 3, "tokens": 101, "width": 360, "heads": 6},
    "small": {"images": 2, "tokens": 17, "width": 128, "heads": 4},
}


class Model(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        for norm in (self.norm, self.mlp_norm):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias, std=0.5)
        self.bfloat16()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        images, tokens, width = x.shape
        qkv = self.qkv(self.norm(x)).reshape(images, tokens, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value).transpose(1, 2)
        x = x + self.out(mixed.reshape(images, tokens, width))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


def get_inputs():
    return [torch.randn(images, tokens, width).bfloat16()]


def get_init_inputs():
    return [width, heads]
