"""A layer of GraphSAGE over sampled neighbourhoods while it serves: each node adds up what its edges bring, then two products."""

import torch
import torch.nn as nn
import torch.nn.functional as F

edges = 500000
nodes = 40000
width = 256

VARIANTS = {
    "ragged": {"edges": 1031, "nodes": 117, "width": 72},
    "small": {"edges": 100, "nodes": 20, "width": 32},
}


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.own, self.sum = (nn.Linear(width, width, dtype=torch.bfloat16) for _ in range(2))

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        neighbours = torch.zeros_like(x).index_add(0, target, x[source])
        return F.relu(self.own(x) + self.sum(neighbours))


def get_inputs():
    return [
        torch.randn(nodes, width).bfloat16(),
        torch.randint(0, nodes, (edges,)),
        torch.randint(0, nodes, (edges,)),
    ]


def get_init_inputs():
    return [width]
