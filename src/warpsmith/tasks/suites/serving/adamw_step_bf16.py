"""A step of AdamW on a 4,096 × 4,096 weight in training: gradients in bfloat16, master weight and moments in float32, in place."""

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
        self.register_buffer("first", 0.1 * torch.randn(rows, columns))
        self.register_buffer("second", 0.1 + torch.rand(rows, columns))
        self.register_buffer("step", torch.tensor(100.0))

    def forward(self, gradient: torch.Tensor) -> torch.Tensor:
        wide = gradient.float()
        self.step.add_(1)
        self.first.mul_(0.9).add_(wide, alpha=0.1)
        self.second.mul_(0.95).addcmul_(wide, wide, value=0.05)
        first = self.first / (1 - 0.9**self.step)
        second = self.second / (1 - 0.95**self.step)
        self.master.mul_(1 - 0.1 * 0.01).sub_(0.1 * first / (second.sqrt() + 1e-8))
        return self.master.to(gradient.dtype)


def get_inputs():
    return [torch.randn(rows, columns).bfloat16()]


def get_init_inputs():
    return [rows, columns]
