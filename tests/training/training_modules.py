"""The small modules that these tests train; no conftest, whose name every folder has."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Mixer(nn.Module):
    """Half a transformer layer: norm, projections, attention, residual."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        return x + torch.softmax(q @ k.transpose(-1, -2) * 0.25, dim=-1) @ v


class Pixels(nn.Module):
    """A convolution with batch normalisation, whose statistics a step updates, and a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.head(F.gelu(self.norm(self.conv(x))).mean((2, 3))), labels)


class Attention(nn.Module):
    """Attention by torch's own function, with fewer heads for keys and values where `groups` is above 1."""

    def __init__(self, width: int = 16, heads: int = 4, groups: int = 1, **options: Any) -> None:
        super().__init__()
        self.heads, self.size, self.options = heads, width // heads, options
        self.query, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.key, self.value = nn.Linear(width, width // groups), nn.Linear(width, width // groups)
        if groups > 1:
            self.options["enable_gqa"] = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        q, k, v = (
            project(x).view(rows, length, -1, self.size).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        mixed = self.attend(q, k, v)
        return x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, **self.options)


def draw_mixer() -> tuple[torch.Tensor]:
    return (torch.randn(3, 8, 16),)


def draw_pixels() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(6, 2, 7, 7), torch.randint(0, 3, (6,))
