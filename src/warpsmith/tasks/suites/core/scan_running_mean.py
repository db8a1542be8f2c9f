"""Mean of all tokens up to and including each one, as in attention with equal weights, through a gate."""

import torch
import torch.nn as nn

batch = 8
tokens = 256
width = 512

VARIANTS = {
    "ragged": {"batch": 3, "tokens": 157, "width": 331},
    "small": {"batch": 2, "tokens": 48, "width": 96},
}


class Model(nn.Module):
    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.register_buffer("share", 1.0 / torch.arange(1, tokens + 1, dtype=torch.float32).unsqueeze(1))

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x, dim=1) * self.share * torch.sigmoid(gate)


def get_inputs():
    return [torch.randn(batch, tokens, width), torch.randn(batch, tokens, width)]


def get_init_inputs():
    return [tokens]
