"""A step of Mamba 2.8B at decode, 32 sequences: the state decays by the step size, takes the input in, and is read and gated."""

import torch
import torch.nn as nn
import torch.nn.functional as F

sequences = 32
channels = 5120
state = 16

VARIANTS = {
    "ragged": {"sequences": 3, "channels": 117},
    "small": {"sequences": 2, "channels": 32},
}


class Model(nn.Module):
    def __init__(self, channels: int, state: int) -> None:
        super().__init__()
        self.rate = nn.Parameter(torch.log(torch.arange(1, state + 1) * (0.5 + torch.rand(channels, 1))))
        self.skip = nn.Parameter(torch.randn(channels))
        self.step_bias = nn.Parameter(torch.randn(channels) - 1)

    def forward(
        self,
        x: torch.Tensor,
        gate: torch.Tensor,
        step: torch.Tensor,
        write: torch.Tensor,
        read: torch.Tensor,
        state: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        size = F.softplus(step.float() + self.step_bias)[..., None]
        decay = torch.exp(-size * torch.exp(self.rate))
        state = state * decay + size * write.float()[:, None] * x.float()[..., None]
        y = (state * read.float()[:, None]).sum(dim=-1) + self.skip * x.float()
        return (y * F.silu(gate.float())).to(x.dtype), state


def get_inputs():
    return [
        torch.randn(sequences, channels).bfloat16(),
        torch.randn(sequences, channels).bfloat16(),
        torch.randn(sequences, channels).bfloat16(),
        torch.randn(sequences, state).bfloat16(),
        torch.randn(sequences, state).bfloat16(),
        torch.randn(sequences, channels, state),
    ]


def get_init_inputs():
    return [channels, state]
