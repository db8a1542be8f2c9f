"""A feed-forward layer: linear, bias, GELU, residual. The product stays with the library; the rest fuses."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 2048
in_features = 128
out_features = 1024

VARIANTS = {
    "ragged": {"batch_size": 509, "in_features": 101, "out_features": 1021},
    "small": {"batch_size": 64, "in_features": 64, "out_features": 256},
}


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=False)
        self.bias = nn.Parameter(torch.randn(out_features))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.linear(x) + self.bias) + residual


def get_inputs():
    return [torch.randn(batch_size, in_features), torch.randn(batch_size, out_features)]


def get_init_inputs():
    return [in_features, out_features]
