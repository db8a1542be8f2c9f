"""A table of a recommender while it serves: each of 8,192 users adds up 32 rows of a million, each row with its weight."""

import torch
import torch.nn as nn
import torch.nn.functional as F

users = 8192
rows = 1000000
each = 32
width = 128

VARIANTS = {
    "ragged": {"users": 67, "rows": 1031, "width": 72},
    "small": {"users": 8, "rows": 100, "width": 32},
}


class Model(nn.Module):
    def __init__(self, rows: int, each: int, width: int) -> None:
        super().__init__()
        self.each = each
        self.table = nn.Parameter(torch.randn(rows, width, dtype=torch.bfloat16))

    def forward(self, weights: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        begin = torch.arange(index.shape[0], device=index.device) * self.each
        return F.embedding_bag(
            index.flatten(), self.table, begin, per_sample_weights=weights.flatten(), mode="sum"
        )


def get_inputs():
    return [torch.randn(users, each).bfloat16(), torch.randint(0, rows, (users, each))]


def get_init_inputs():
    return [rows, each, width]
