"""Attention of BERT-large over padded sentences, written out: a product, a masked softmax, a product."""

import torch
import torch.nn as nn

sentences = 16
heads = 16
tokens = 384
depth = 64

VARIANTS = {
    "ragged": {"sentences": 3, "heads": 5, "tokens": 117},
    "small": {"sentences": 2, "heads": 2, "tokens": 24},
}


class Model(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.scale = depth**-0.5

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        scores = torch.matmul(query, key.transpose(-2, -1)) * self.scale
        padded = torch.arange(key.shape[2], device=key.device) >= lengths[:, None, None, None]
        weights = torch.softmax(scores.masked_fill(padded, float("-inf")), dim=-1)
        return torch.matmul(weights, value)


def get_inputs():
    shape = (sentences, heads, tokens, depth)
    lengths = torch.randint(tokens // 2, tokens + 1, (sentences,))
    return [torch.randn(shape).half(), torch.randn(shape).half(), torch.randn(shape).half(), lengths]


def get_init_inputs():
    return [depth]
