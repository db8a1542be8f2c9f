"""A step of Qwen3-Next's gated delta rule at decode: normed queries and keys, the state decays, and what the key recalls is corrected."""

import torch
import torch.nn as nn
import torch.nn.functional as F

sequences = 32
heads = 32
depth = 128

VARIANTS = {
    "ragged": {"sequences": 3, "heads": 5, "depth": 37},
    "small": {"sequences": 2, "heads": 2, "depth": 16},
}


class Model(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.rate = nn.Parameter(torch.log(0.2 + torch.rand(heads)))
        self.step_bias = nn.Parameter(torch.randn(heads))

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        step: torch.Tensor,
        strength: torch.Tensor,
        state: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        query, key = (
            x.float() * torch.rsqrt(x.float().square().sum(-1, keepdim=True) + 1e-6) for x in (query, key)
        )
        decay = torch.exp(-torch.exp(self.rate) * F.softplus(step.float() + self.step_bias))
        state = state * decay[..., None, None]
        recalled = (state * key[..., None]).sum(dim=-2)
        change = torch.sigmoid(strength.float())[..., None] * (value.float() - recalled)
        state = state + key[..., None] * change[..., None, :]
        return (state * query[..., None]).sum(dim=-2).to(value.dtype), state


def get_inputs():
    shape = (sequences, heads, depth)
    return [
        torch.randn(shape).bfloat16(),
        torch.randn(shape).bfloat16(),
        torch.randn(shape).bfloat16(),
        torch.randn(sequences, heads).bfloat16(),
        torch.randn(sequences, heads).bfloat16(),
        torch.randn(sequences, heads, depth, depth),
    ]


def get_init_inputs():
    return [heads]
