"""Linear followed by a sum over its outputs.

Algebra collapses it to one vector (sum the weight first); such a win is labelled *algorithmic*.
"""

import torch
import torch.nn as nn

batch_size = 1024
in_features = 512
out_features = 512

VARIANTS = {
    "ragged": {"batch_size": 251, "in_features": 251, "out_features": 509},
    "small": {"batch_size": 64, "in_features": 64, "out_features": 128},
}


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sum(self.linear(x), dim=1, keepdim=True)


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features]
