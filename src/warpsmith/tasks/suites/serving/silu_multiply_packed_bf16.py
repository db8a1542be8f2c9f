"""The activation between the products of a Llama 3 8B layer at prefill, as servers run it: SiLU of the first half times the second."""

import torch
import torch.nn as nn
import torch.nn.functional as F

tokens = 4096
hidden = 14336

VARIANTS = {
    "ragged": {"tokens": 117, "hidden": 1001},
    "small": {"tokens": 16, "hidden": 96},
}


class Model(nn.Module):
    def forward(self, packed: torch.Tensor) -> torch.Tensor:
        gate, up = packed.unflatten(-1, (2, -1)).unbind(-2)
        return F.silu(gate) * up


def get_inputs():
    return [torch.randn(tokens, 2 * hidden).bfloat16()]


def get_init_inputs():
    return []
