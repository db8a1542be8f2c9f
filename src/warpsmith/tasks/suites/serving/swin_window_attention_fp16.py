"""Attention of Swin-T's second stage, 16 images: windows of 7 × 7 tokens, a bias for each offset, cut out of the image and put back."""

import torch
import torch.nn as nn
import torch.nn.functional as F

images = 16
side = 28
heads = 6
depth = 32

VARIANTS = {
    "ragged": {"images": 3, "side": 21, "heads": 5},
    "small": {"images": 1, "side": 14, "heads": 2},
}


class Model(nn.Module):
    def __init__(self, heads: int, depth: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = (
            nn.Linear(heads * depth, 3 * heads * depth),
            nn.Linear(heads * depth, heads * depth),
        )
        self.bias = nn.Parameter(torch.randn(169, heads))
        self.half()
        row, column = torch.arange(49) // 7, torch.arange(49) % 7
        offset = (row[:, None] - row + 6) * 13 + column[:, None] - column + 6
        self.register_buffer("offset", offset)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        images, side, _, width = x.shape
        windows = x.view(images, side // 7, 7, side // 7, 7, width).transpose(2, 3).reshape(-1, 49, width)
        qkv = self.qkv(windows).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = qkv.unbind(0)
        bias = self.bias[self.offset].permute(2, 0, 1)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=bias[None])
        out = self.out(mixed.transpose(1, 2).flatten(2))
        return out.view(images, side // 7, side // 7, 7, 7, width).transpose(2, 3).reshape(x.shape)


def get_inputs():
    return [torch.randn(images, side, side, heads * depth).half()]


def get_init_inputs():
    return [heads, depth]
