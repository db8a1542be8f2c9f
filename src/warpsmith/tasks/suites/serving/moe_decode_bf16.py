"""The mixture of a Qwen 3 30B-A3B layer at decode, eight sequences: weights of each token's eight experts of 128 are collected."""

import torch
import torch.nn as nn
import torch.nn.functional as F

sequences = 8
width = 2048
hidden = 768
experts = 128
chosen = 8

VARIANTS = {
    "ragged": {"sequences": 5, "width": 136, "hidden": 104, "experts": 19},
    "small": {"sequences": 2, "width": 64, "hidden": 32, "experts": 12},
}


class Model(nn.Module):
    def __init__(self, width: int, hidden: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(width, experts, bias=False, dtype=torch.bfloat16)
        self.gate, self.up = (
            nn.Parameter((torch.randn(experts, hidden, width) / width**0.5).bfloat16()) for _ in range(2)
        )
        self.down = nn.Parameter((torch.randn(experts, width, hidden) / hidden**0.5).bfloat16())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, expert = torch.softmax(self.router(x).float(), dim=-1).topk(self.chosen, dim=-1)
        weights = (weights / weights.sum(dim=-1, keepdim=True)).to(x.dtype)
        column = x[:, None, :, None]
        hidden = F.silu(torch.matmul(self.gate[expert], column)) * torch.matmul(self.up[expert], column)
        outputs = torch.matmul(self.down[expert], hidden)[..., 0]
        return (outputs * weights[..., None]).sum(dim=1)


def get_inputs():
    return [torch.randn(sequences, width).bfloat16()]


def get_init_inputs():
    return [width, hidden, experts, chosen]
