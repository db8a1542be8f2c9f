"""A linear layer with adapters at decode, 32 sequences of Llama 2 7B: each adds the low-rank product of its own adapter of 16."""

import torch
import torch.nn as nn

sequences = 32
inputs = 4096
outputs = 4096
adapters = 16
rank = 16

VARIANTS = {
    "ragged": {"sequences": 13, "inputs": 200, "outputs": 317, "adapters": 5, "rank": 8},
    "small": {"sequences": 4, "inputs": 64, "outputs": 48, "adapters": 3, "rank": 4},
}


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int, adapters: int, rank: int) -> None:
        super().__init__()
        self.base = nn.Linear(inputs, outputs, bias=False, dtype=torch.bfloat16)
        self.down = nn.Parameter((torch.randn(adapters, rank, inputs) / inputs**0.5).bfloat16())
        self.up = nn.Parameter((torch.randn(adapters, outputs, rank) / rank**0.5).bfloat16())

    def forward(self, x: torch.Tensor, adapter: torch.Tensor) -> torch.Tensor:
        narrow = torch.bmm(self.down[adapter], x[..., None])
        return self.base(x) + 2 * torch.bmm(self.up[adapter], narrow)[..., 0]


def get_inputs():
    return [torch.randn(sequences, inputs).bfloat16(), torch.randint(0, adapters, (sequences,))]


def get_init_inputs():
    return [inputs, outputs, adapters, rank]
