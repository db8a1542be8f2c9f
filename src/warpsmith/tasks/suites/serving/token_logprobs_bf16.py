"""Log-probabilities of given tokens, as training with rewards reads them: rows of 151,936 logits at a temperature, and the entropy."""

import torch
import torch.nn as nn

tokens = 2048
vocabulary = 151936

VARIANTS = {
    "ragged": {"tokens": 67, "vocabulary": 3203},
    "small": {"tokens": 16, "vocabulary": 500},
}


class Model(nn.Module):
    def forward(self, logits: torch.Tensor, chosen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logarithms = torch.log_softmax(logits.float() / 0.7, dim=-1)
        entropy = -(logarithms.exp() * logarithms).sum(dim=-1)
        return logarithms.gather(-1, chosen[:, None])[:, 0], entropy


def get_inputs():
    return [torch.randn(tokens, vocabulary).bfloat16(), torch.randint(0, vocabulary, (tokens,))]


def get_init_inputs():
    return []
