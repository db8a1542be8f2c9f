"""GroupNorm and SiLU in the decoder of Stable Diffusion's autoencoder, at 256 × 256 pixels, the norm in float32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

images = 2
channels = 256
side = 256

VARIANTS = {
    "ragged": {"images": 3, "channels": 96, "side": 17},
    "small": {"images": 2, "channels": 64, "side": 6},
}


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, channels, eps=1e-6)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias, std=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.norm(x.float())).to(x.dtype)


def get_inputs():
    return [torch.randn(images, channels, side, side).half()]


def get_init_inputs():
    return [channels]
