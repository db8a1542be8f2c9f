"""The models that `training.py` trains, small enough for two processors: a decoder-only transformer, a residual network."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, LENGTH, CLASSES = 256, 64, 10
Batch = tuple[Any, ...]


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.out = (
            nn.LayerNorm(width),
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
        )
        self.mlp_norm, self.up, self.down = (
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        qkv = self.qkv(self.norm(x)).view(rows, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


class Transformer(nn.Module):
    """Returns the loss of the next token."""

    def __init__(self, width: int = 128, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Parameter(torch.zeros(LENGTH, width))
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens[:, :-1]) + self.places
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))

    @staticmethod
    def draw(generator: torch.Generator, rows: int = 8) -> Batch:
        """Sequences that count up, so that there is something to learn."""
        first = torch.randint(VOCABULARY, (rows, 1), generator=generator)
        pace = torch.randint(1, 5, (rows, 1), generator=generator)
        return ((first + pace * torch.arange(LENGTH + 1)) % VOCABULARY,)


class Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.first_norm, self.second_norm = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        self.shortcut = (
            nn.Conv2d(before, after, 1, stride, bias=False)
            if stride != 1 or before != after
            else nn.Identity()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """Returns the loss of the class."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.blocks = nn.Sequential(
            Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2)
        )
        self.head = nn.Linear(4 * width, CLASSES)

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.blocks(F.relu(self.norm(self.stem(images))))
        return F.cross_entropy(self.head(x.mean((2, 3))), labels)

    @staticmethod
    def draw(generator: torch.Generator, rows: int = 16) -> Batch:
        """Images whose brightness tells their class."""
        labels = torch.randint(CLASSES, (rows,), generator=generator)
        noise = torch.randn(rows, 3, 16, 16, generator=generator)
        return noise + labels.view(-1, 1, 1, 1) / CLASSES * 4, labels


MODELS: dict[str, Any] = {"transformer": Transformer, "resnet": ResNet}
