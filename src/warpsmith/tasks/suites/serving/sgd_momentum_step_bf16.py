"""A step of SGD with Nesterov's momentum in training, in place on the tensors given: weight decay, velocity, and the weight."""

import torch
import torch.nn as nn

rows = 4096
columns = 4096

VARIANTS = {
    "ragged": {"rows": 131, "columns": 517},
    "small": {"rows": 16, "columns": 64},
}


class Model(nn.Module):
    def forward(self, gradient: torch.Tensor, weight: torch.Tensor, velocity: torch.Tensor) -> torch.Tensor:
        slope = gradient.float() + 0.1 * weight
        velocity.mul_(0.9).add_(slope)
        weight.sub_(0.2 * (slope + 0.9 * velocity))
        return weight.to(gradient.dtype)


def get_inputs():
    return [
        torch.randn(rows, columns).bfloat16(),
        torch.randn(rows, columns),
        torch.randn(rows, columns),
    ]


def get_init_inputs():
    return []
