"""A step of Lion in training, in place: the sign of a mixed momentum moves the weight, which also decays; the momentum follows."""

import torch
import torch.nn as nn

rows = 4096
columns = 4096

VARIANTS = {
    "ragged": {"rows": 131, "columns": 517},
    "small": {"rows": 16, "columns": 64},
}


class Model(nn.Module):
    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.register_buffer("master", torch.randn(rows, columns))
        self.register_buffer("momentum", torch.randn(rows, columns))

    def forward(self, gradient: torch.Tensor) -> torch.Tensor:
        wide = gradient.float()
        direction = torch.sign(0.9 * self.momentum + 0.1 * wide)
        self.master.mul_(1 - 0.1 * 0.3).sub_(0.3 * direction)
        self.momentum.mul_(0.99).add_(wide, alpha=0.01)
        return self.master.to(gradient.dtype)


def get_inputs():
    return [torch.randn(rows, columns).bfloat16()]


def get_init_inputs():
    return [rows, columns]
