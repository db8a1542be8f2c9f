"""The router of DeepSeek V3 at prefill: sigmoid scores, a bias that only chooses, the eight largest of 256, weights that sum to 2.5."""

import torch
import torch.nn as nn
import torch.nn.functional as F

tokens = 4096
width = 7168
experts = 256
chosen = 8

VARIANTS = {
    "ragged": {"tokens": 67, "width": 200, "experts": 37},
    "small": {"tokens": 16, "width": 64, "experts": 16},
}


class Model(nn.Module):
    def __init__(self, width: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.weight = nn.Parameter((2 * torch.randn(experts, width) / width**0.5).bfloat16())
        self.bias = nn.Parameter(0.1 * torch.randn(experts))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = torch.sigmoid(F.linear(x.float(), self.weight.float()))
        expert = (scores + self.bias).topk(self.chosen, dim=-1).indices
        weights = scores.gather(-1, expert)
        return 2.5 * weights / (weights.sum(dim=-1, keepdim=True) + 1e-20), expert


def get_inputs():
    return [torch.randn(tokens, width).bfloat16()]


def get_init_inputs():
    return [width, experts, chosen]
