"""The long convolution of a Hyena layer over 32,768 tokens: Fourier transform, product with the filter's spectrum, and back."""

import torch
import torch.nn as nn

prompts = 1
channels = 256
tokens = 32768

VARIANTS = {
    "ragged": {"prompts": 3, "channels": 13},
    "small": {"prompts": 1, "channels": 2},
}


class Model(nn.Module):
    def __init__(self, channels: int, tokens: int) -> None:
        super().__init__()
        decay = torch.exp(-4 * torch.arange(tokens) / tokens)
        self.filter = nn.Parameter(torch.randn(channels, tokens) * decay / tokens**0.5)
        self.skip = nn.Parameter(torch.randn(channels, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = 2 * x.shape[-1]
        spectrum = torch.fft.rfft(x.float(), n=size) * torch.fft.rfft(self.filter, n=size)
        mixed = torch.fft.irfft(spectrum, n=size)[..., : x.shape[-1]]
        return (mixed + self.skip * x).to(x.dtype)


def get_inputs():
    return [torch.randn(prompts, channels, tokens).bfloat16()]


def get_init_inputs():
    return [channels, tokens]
