"""A circular convolution over windows of 256 samples, each channel with its own filter, by products of spectra, in a batch of 64."""

import torch
import torch.nn as nn

windows = 64
channels = 512
samples = 256

VARIANTS = {
    "ragged": {"windows": 5, "channels": 37},
    "small": {"windows": 2, "channels": 4},
}


class Model(nn.Module):
    def __init__(self, channels: int, samples: int) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(channels, samples) / samples**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.fft.rfft(x.float()) * torch.fft.rfft(self.filter)
        return torch.fft.irfft(spectrum, n=x.shape[-1]).to(x.dtype)


def get_inputs():
    return [torch.randn(windows, channels, samples).bfloat16()]


def get_init_inputs():
    return [channels, samples]
