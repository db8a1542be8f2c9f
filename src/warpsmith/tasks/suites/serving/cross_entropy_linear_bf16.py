"""The head and the loss of a Llama 3.2 1B in training: 2,048 tokens times a vocabulary of 128,256, and the cross-entropy of it."""

import torch
import torch.nn as nn
import torch.nn.functional as F

tokens = 2048
width = 2048
vocabulary = 128256

VARIANTS = {
    "ragged": {"tokens": 67, "width": 200, "vocabulary": 3203},
    "small": {"tokens": 16, "width": 64, "vocabulary": 500},
}


class Model(nn.Module):
    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.head = nn.Linear(width, vocabulary, bias=False, dtype=torch.bfloat16)
        nn.init.normal_(self.head.weight, std=2 * width**-0.5)

    def forward(self, x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.head(x).float(), targets)


def get_inputs():
    return [torch.randn(tokens, width).bfloat16(), torch.randint(0, vocabulary, (tokens,))]


def get_init_inputs():
    return [width, vocabulary]
