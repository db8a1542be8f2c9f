"""A chunk of a RetNet's prefill: attention inside the chunk with a decay for each head, the state from before it, and the new state."""

import torch
import torch.nn as nn

sequences = 16
heads = 16
chunk = 256
depth = 128

VARIANTS = {
    "ragged": {"sequences": 3, "heads": 5, "chunk": 77, "depth": 40},
    "small": {"sequences": 2, "heads": 2, "chunk": 16, "depth": 16},
}


class Model(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.register_buffer("decay", torch.log1p(-(2.0 ** (-2 - 4 * torch.rand(heads)))))

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        position = torch.arange(query.shape[2], device=query.device)
        last = position[-1]
        rate = self.decay[:, None, None]
        distance = position[:, None] - position
        inside = torch.exp(rate * distance).masked_fill(distance < 0, 0.0)
        wide = value.float()
        scores = torch.matmul(query, key.transpose(-2, -1)).float() * inside
        before = torch.matmul(query.float(), state) * torch.exp(rate * (position[:, None] + 1))
        left = key.float() * torch.exp(rate * (last - position[:, None]))
        after = state * torch.exp(rate * (last + 1)) + torch.matmul(left.transpose(-2, -1), wide)
        return (torch.matmul(scores, wide) + before).to(value.dtype), after


def get_inputs():
    shape = (sequences, heads, chunk, depth)
    return [
        torch.randn(shape).bfloat16(),
        torch.randn(shape).bfloat16(),
        torch.randn(shape).bfloat16(),
        torch.randn(sequences, heads, depth, depth),
    ]


def get_init_inputs():
    return [heads]
