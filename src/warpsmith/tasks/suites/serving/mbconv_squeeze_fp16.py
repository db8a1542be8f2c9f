"""A block of EfficientNet-B0 at inference, 32 images: expansion, depthwise 5 × 5, squeeze and excitation, projection, residual."""

import torch
import torch.nn as nn
import torch.nn.functional as F

images = 32
channels = 40
side = 28

VARIANTS = {
    "ragged": {"images": 3, "channels": 20, "side": 13},
    "small": {"images": 2, "channels": 16, "side": 7},
}


def make_norm(channels: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(channels, eps=1e-3)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias)
    norm.running_mean.normal_(std=0.1)
    norm.running_var.uniform_(0.2, 0.8)
    return norm


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        inner, squeezed = 6 * channels, channels // 4
        self.expand = nn.Conv2d(channels, inner, 1, bias=False)
        self.depthwise = nn.Conv2d(inner, inner, 5, padding=2, groups=inner, bias=False)
        self.squeeze, self.excite = nn.Conv2d(inner, squeezed, 1), nn.Conv2d(squeezed, inner, 1)
        self.project = nn.Conv2d(inner, channels, 1, bias=False)
        self.expand_norm, self.depthwise_norm, self.project_norm = map(make_norm, (inner, inner, channels))
        nn.init.normal_(self.excite.weight, std=squeezed**-0.5)
        nn.init.normal_(self.excite.bias)
        self.half().eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.silu(self.expand_norm(self.expand(x)))
        h = F.silu(self.depthwise_norm(self.depthwise(h)))
        gate = torch.sigmoid(self.excite(F.silu(self.squeeze(h.mean((2, 3), keepdim=True)))))
        return x + self.project_norm(self.project(h * gate))


def get_inputs():
    return [torch.randn(images, channels, side, side).half()]


def get_init_inputs():
    return [channels]
