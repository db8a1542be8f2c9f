"""One decoding step in bfloat16: a matrix times a vector, bias, tanh-GELU, a gate."""

import torch
import torch.nn as nn
import torch.nn.functional as F

outputs = 3072
inputs = 1024

VARIANTS = {
    "ragged": {"outputs": 1531, "inputs": 777},
    "small": {"outputs": 128, "inputs": 64},
}


class Model(nn.Module):
    def __init__(self, outputs: int, inputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter((torch.randn(outputs, inputs) / inputs**0.5).bfloat16())
        self.bias = nn.Parameter(torch.randn(outputs).bfloat16())

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        return F.gelu(F.linear(x, self.weight, self.bias), approximate="tanh") * gate


def get_inputs():
    return [torch.randn(1, inputs).bfloat16(), torch.randn(1, outputs).bfloat16()]


def get_init_inputs():
    return [outputs, inputs]
