"""The loss of a Llama 3 in training: cross-entropy of 4,096 tokens over a vocabulary of 128,256, logits in bfloat16."""

import torch
import torch.nn as nn
import torch.nn.functional as F

tokens = 4096
vocabulary = 128256

VARIANTS = {
    "ragged": {"tokens": 67, "vocabulary": 32003},
    "small": {"tokens": 16, "vocabulary": 1000},
}


class Model(nn.Module):
    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits.float(), targets)


def get_inputs():
    return [torch.randn(tokens, vocabulary).bfloat16(), torch.randint(0, vocabulary, (tokens,))]


def get_init_inputs():
    return []
