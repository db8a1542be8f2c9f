"""The modulation of a DiT-XL block while it samples: LayerNorm without weights, shifted and scaled by the time, gated residual."""

import torch
import torch.nn as nn
import torch.nn.functional as F

images = 16
tokens = 1024
width = 1152

VARIANTS = {
    "ragged": {"images": 3, "tokens": 117, "width": 777},
    "small": {"images": 2, "tokens": 16, "width": 128},
}


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.modulation = nn.Linear(width, 3 * width, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor, branch: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        shift, scale, gate = self.modulation(F.silu(time)).unflatten(-1, (3, 1, -1)).unbind(1)
        h = x + gate * branch
        return F.layer_norm(h, h.shape[-1:], eps=1e-6) * (1 + scale) + shift


def get_inputs():
    return [
        torch.randn(images, tokens, width).bfloat16(),
        torch.randn(images, tokens, width).bfloat16(),
        torch.randn(images, width).bfloat16(),
    ]


def get_init_inputs():
    return [width]
