"""Multi-head latent attention of DeepSeek V3 at decode, absorbed: all heads look at one cache of latents and rotated keys."""

import torch
import torch.nn as nn

sequences = 16
heads = 128
context = 2048
latent = 512
rotary = 64

VARIANTS = {
    "ragged": {"sequences": 3, "heads": 7, "context": 217},
    "small": {"sequences": 2, "heads": 4, "context": 24},
}


class Model(nn.Module):
    def __init__(self, heads: int, latent: int, rotary: int) -> None:
        super().__init__()
        self.latent, self.scale = latent, (128 + rotary) ** -0.5
        self.lift = nn.Parameter((torch.randn(heads, 128, latent) / 128**0.5).bfloat16())
        self.drop = nn.Parameter((torch.randn(heads, latent, 128) / latent**0.5).bfloat16())

    def forward(
        self, query: torch.Tensor, rotated: torch.Tensor, cache: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        absorbed = torch.einsum("bhd,hdl->bhl", query, self.lift)
        scores = (
            torch.matmul(torch.cat([absorbed, rotated], dim=-1), cache.transpose(1, 2)).float() * self.scale
        )
        filled = torch.arange(cache.shape[1], device=cache.device) < lengths[:, None, None]
        weights = torch.softmax(scores.masked_fill(~filled, float("-inf")), dim=-1).to(cache.dtype)
        mixed = torch.matmul(weights, cache[..., : self.latent])
        return torch.einsum("bhl,hld->bhd", mixed, self.drop)


def get_inputs():
    return [
        torch.randn(sequences, heads, 128).bfloat16(),
        torch.randn(sequences, heads, rotary).bfloat16(),
        torch.randn(sequences, context, latent + rotary).bfloat16(),
        torch.randint(context // 4, context + 1, (sequences,)),
    ]


def get_init_inputs():
    return [heads, latent, rotary]
