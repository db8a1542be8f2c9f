"""A layer of a graph attention network while it serves: scores of edges, a softmax over each node's edges, a weighted sum."""

import torch
import torch.nn as nn
import torch.nn.functional as F

edges = 200000
nodes = 20000
heads = 4
depth = 64

VARIANTS = {
    "ragged": {"edges": 1031, "nodes": 117, "heads": 3, "depth": 40},
    "small": {"edges": 60, "nodes": 12, "heads": 2, "depth": 16},
}


class Model(nn.Module):
    def __init__(self, heads: int, depth: int) -> None:
        super().__init__()
        self.source, self.target = (nn.Parameter(torch.randn(heads, depth) / depth**0.5) for _ in range(2))

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        scores = (wide * self.source).sum(-1)[source] + (wide * self.target).sum(-1)[target]
        scores = F.leaky_relu(scores, 0.2)
        index = target[:, None].expand(scores.shape)
        largest = torch.zeros_like(wide[..., 0]).scatter_reduce(0, index, scores, "amax", include_self=False)
        weights = torch.exp(scores - largest[target])
        total = torch.zeros_like(largest).index_add(0, target, weights)
        mixed = torch.zeros_like(wide).index_add(0, target, weights[..., None] * wide[source])
        return (mixed / total.clamp(min=1e-20)[..., None]).to(x.dtype)


def get_inputs():
    return [
        torch.randn(nodes, heads, depth).bfloat16(),
        torch.randint(0, nodes, (edges,)),
        torch.randint(0, nodes, (edges,)),
    ]


def get_init_inputs():
    return [heads, depth]
