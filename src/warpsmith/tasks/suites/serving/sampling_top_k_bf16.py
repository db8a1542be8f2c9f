"""Sampling from a Llama 3 at decode up to the draw: probabilities of the 50 largest of 128,256 logits, at a temperature."""

import torch
import torch.nn as nn

sequences = 64
vocabulary = 128256
count = 50

VARIANTS = {
    "ragged": {"sequences": 13, "vocabulary": 3203},
    "small": {"sequences": 4, "vocabulary": 500},
}


class Model(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        scaled = logits.float() / 0.8
        least = scaled.topk(self.count, dim=-1).values[:, -1:]
        return torch.softmax(scaled.masked_fill(scaled < least, float("-inf")), dim=-1)


def get_inputs():
    return [torch.randn(sequences, vocabulary).bfloat16()]


def get_init_inputs():
    return [count]
