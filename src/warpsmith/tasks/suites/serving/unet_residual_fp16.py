"""A residual block of Stable Diffusion's U-Net, four latents: GroupNorm, SiLU, convolution, the time embedding between."""

import torch
import torch.nn as nn
import torch.nn.functional as F

images = 4
channels = 320
side = 64
embedding = 1280
groups = 32

VARIANTS = {
    "ragged": {"images": 3, "channels": 96, "side": 17, "embedding": 100},
    "small": {"images": 1, "channels": 64, "side": 8, "embedding": 64},
}


class Model(nn.Module):
    def __init__(self, channels: int, embedding: int, groups: int) -> None:
        super().__init__()
        self.norm_in, self.norm_out = (nn.GroupNorm(groups, channels) for _ in range(2))
        self.conv_in, self.conv_out = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.time = nn.Linear(embedding, channels)
        for norm in (self.norm_in, self.norm_out):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias, std=0.5)
        self.half()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        h = self.conv_in(F.silu(self.norm_in(x)))
        h = h + self.time(F.silu(time))[:, :, None, None]
        return x + self.conv_out(F.silu(self.norm_out(h)))


def get_inputs():
    return [torch.randn(images, channels, side, side).half(), torch.randn(images, embedding).half()]


def get_init_inputs():
    return [channels, embedding, groups]
