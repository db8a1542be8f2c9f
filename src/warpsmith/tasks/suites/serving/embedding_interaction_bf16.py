"""The middle of DLRM while it serves: rows of 26 tables are collected, and all pairs of features meet in products beside the dense one."""

import torch
import torch.nn as nn
import torch.nn.functional as F

users = 4096
rows = 50000
tables = 26
width = 128

VARIANTS = {
    "ragged": {"users": 67, "rows": 1031, "width": 72},
    "small": {"users": 8, "rows": 50, "width": 32},
}


class Model(nn.Module):
    def __init__(self, rows: int, tables: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(tables * rows, width, dtype=torch.bfloat16))
        self.register_buffer("begin", torch.arange(tables) * rows)
        pairs = torch.tril_indices(tables + 1, tables + 1, offset=-1)
        self.register_buffer("pair", pairs[0] * (tables + 1) + pairs[1])

    def forward(self, dense: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        features = torch.cat([dense[:, None], F.embedding(index + self.begin, self.table)], dim=1)
        products = torch.bmm(features, features.transpose(1, 2)).flatten(1)
        return torch.cat([dense, products.index_select(1, self.pair)], dim=1)


def get_inputs():
    return [torch.randn(users, width).bfloat16(), torch.randint(0, rows, (users, tables))]


def get_init_inputs():
    return [rows, tables, width]
