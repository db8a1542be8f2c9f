"""A gated long convolution over 65,536 samples, zero-padded to twice the length: gate, transform, filter, back, and gate again."""

import torch
import torch.nn as nn

channels = 64
samples = 65536

VARIANTS = {
    "ragged": {"channels": 3},
    "small": {"channels": 1},
}


class Model(nn.Module):
    def __init__(self, channels: int, samples: int) -> None:
        super().__init__()
        decay = torch.exp(-6 * torch.arange(samples) / samples)
        filters = torch.randn(channels, samples) * decay / samples**0.5
        self.register_buffer("spectrum", torch.view_as_real(torch.fft.rfft(filters, n=2 * samples)))

    def forward(self, value: torch.Tensor, gate: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        entered = (value * torch.sigmoid(gate)).float()
        spectrum = torch.fft.rfft(entered, n=2 * entered.shape[-1]) * torch.view_as_complex(self.spectrum)
        mixed = torch.fft.irfft(spectrum, n=2 * entered.shape[-1])[..., : entered.shape[-1]]
        return (mixed * out.float()).to(value.dtype)


def get_inputs():
    return [torch.randn(1, channels, samples).bfloat16() for _ in range(3)]


def get_init_inputs():
    return [channels, samples]
