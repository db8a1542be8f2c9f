"""A tall matrix onto a few columns: a router's scores with bias and sigmoid, the input through SiLU first."""

import torch
import torch.nn as nn
import torch.nn.functional as F

tokens = 32768
features = 72
experts = 12

VARIANTS = {
    "ragged": {"tokens": 5003, "features": 51, "experts": 9},
    "small": {"tokens": 256, "features": 32, "experts": 8},
}


class Model(nn.Module):
    def __init__(self, features: int, experts: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, experts) / features**0.5)
        self.bias = nn.Parameter(torch.randn(experts))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(torch.matmul(F.silu(x), self.weight) + self.bias)


def get_inputs():
    return [torch.randn(tokens, features)]


def get_init_inputs():
    return [features, experts]
