"""A residual sum in quantisation-aware training: one side rounded to int8 per channel, one per tensor, then ReLU."""

import torch
import torch.nn as nn

batch = 8
channels = 96
side = 40

VARIANTS = {
    "ragged": {"batch": 3, "channels": 59, "side": 23},
    "small": {"batch": 2, "channels": 16, "side": 16},
}


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("scale", 0.01 + 0.02 * torch.rand(channels))
        self.register_buffer("zero_point", torch.randint(-30, 30, (channels,), dtype=torch.int32))

    def forward(self, x: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        x = torch.fake_quantize_per_channel_affine(x, self.scale, self.zero_point, 1, -128, 127)
        return torch.relu(x + torch.fake_quantize_per_tensor_affine(skip, 0.05, 12, -128, 127))


def get_inputs():
    return [torch.randn(batch, channels, side, side), torch.randn(batch, channels, side, side)]


def get_init_inputs():
    return [channels]
