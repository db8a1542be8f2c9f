"""Rewards still to come at each step of an episode, ended steps masked, less what a critic expected."""

import torch
import torch.nn as nn

episodes = 384
steps = 1024

VARIANTS = {
    "ragged": {"episodes": 131, "steps": 811},
    "small": {"episodes": 32, "steps": 200},
}


class Model(nn.Module):
    def forward(self, reward: torch.Tensor, alive: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
        still = (reward * alive).flip(1)
        return torch.cumsum(still, dim=1).flip(1) - expected


def get_inputs():
    alive = torch.rand(episodes, steps) < 0.9
    return [torch.randn(episodes, steps), alive, torch.randn(episodes, steps)]


def get_init_inputs():
    return []
