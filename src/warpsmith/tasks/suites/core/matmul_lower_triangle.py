"""The lower triangle of a product of two square matrices."""

import torch
import torch.nn as nn

size = 640

VARIANTS = {
    "ragged": {"size": 393},
    "small": {"size": 96},
}


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.tril(torch.matmul(a, b))


def get_inputs():
    return [torch.randn(size, size), torch.randn(size, size)]


def get_init_inputs():
    return []
