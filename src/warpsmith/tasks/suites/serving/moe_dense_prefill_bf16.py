"""A mixture like Mixtral's at a quarter of its width, prefill, dense: eight experts run on all tokens, two count for each."""

import torch
import torch.nn as nn
import torch.nn.functional as F

tokens = 512
width = 1024
hidden = 3584
experts = 8
chosen = 2

VARIANTS = {
    "ragged": {"tokens": 67, "width": 136, "hidden": 200},
    "small": {"tokens": 16, "width": 64, "hidden": 96},
}


class Model(nn.Module):
    def __init__(self, width: int, hidden: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(width, experts, bias=False, dtype=torch.bfloat16)
        self.gate, self.up = (
            nn.Parameter((torch.randn(experts, width, hidden) / width**0.5).bfloat16()) for _ in range(2)
        )
        self.down = nn.Parameter((torch.randn(experts, hidden, width) / hidden**0.5).bfloat16())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, expert = torch.softmax(self.router(x).float(), dim=-1).topk(self.chosen, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        share = torch.zeros_like(weights[:, :1]).expand(-1, self.gate.shape[0]).scatter(-1, expert, weights)
        hidden = F.silu(torch.matmul(x, self.gate)) * torch.matmul(x, self.up)
        outputs = torch.matmul(hidden, self.down)
        return (outputs * share.t()[..., None].to(x.dtype)).sum(dim=0)


def get_inputs():
    return [torch.randn(tokens, width).bfloat16()]


def get_init_inputs():
    return [width, hidden, experts, chosen]
