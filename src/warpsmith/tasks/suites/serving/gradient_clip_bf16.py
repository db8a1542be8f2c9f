"""Clipping of gradients in training: the norm over three weights of one size, and all of them scaled to a norm of one at the most."""

import torch
import torch.nn as nn

rows = 4096
columns = 4096

VARIANTS = {
    "ragged": {"rows": 131, "columns": 517},
    "small": {"rows": 16, "columns": 64},
}


class Model(nn.Module):
    def forward(
        self, first: torch.Tensor, second: torch.Tensor, third: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        gradients = first, second, third
        norm = torch.stack([g.float().square().sum() for g in gradients]).sum().sqrt()
        factor = (1 / (norm + 1e-6)).clamp(max=1)
        return norm, *((g * factor).to(g.dtype) for g in gradients)


def get_inputs():
    return [torch.randn(rows, columns).bfloat16() for _ in range(3)]


def get_init_inputs():
    return []
