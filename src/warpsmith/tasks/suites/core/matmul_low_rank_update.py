"""A matrix plus a low-rank product: w + u @ v, as an adapter adds to a weight."""

import torch
import torch.nn as nn

rows = 1024
columns = 1536
rank = 16

VARIANTS = {
    "ragged": {"rows": 515, "columns": 777, "rank": 11},
    "small": {"rows": 64, "columns": 96, "rank": 4},
}


class Model(nn.Module):
    def forward(self, w: torch.Tensor, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return w + 0.25 * torch.matmul(u, v)


def get_inputs():
    return [torch.randn(rows, columns), torch.randn(rows, rank), torch.randn(rank, columns)]


def get_init_inputs():
    return []
