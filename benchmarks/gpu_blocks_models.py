"""The modules of `gpu_blocks.py`: blocks at the sizes at which they are served, and small whole models of transformers.

Each item builds a module and, from a seed, its inputs, both on the GPU and in half precision.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from import_torchvision import import_torchvision
from torch.nn.attention import SDPBackend, sdpa_kernel

Call = tuple[tuple[Any, ...], dict[str, Any]]
BACKENDS = ("default", "MATH", "EFFICIENT_ATTENTION", "FLASH_ATTENTION", "CUDNN_ATTENTION")
DEVICE = "cuda"


@dataclass(frozen=True)
class Item:
    """A module by name: how it is built, its dtype, and its inputs by seed."""

    name: str
    dtype: torch.dtype
    build: Callable[[], torch.nn.Module]
    inputs: Callable[[torch.nn.Module, torch.dtype, int], Call]

    def make_module(self, device: str = DEVICE) -> torch.nn.Module:
        torch.manual_seed(0)
        return self.build().to(device=device, dtype=self.dtype).eval()


class Attention(torch.nn.Module):
    """`scaled_dot_product_attention` with one backend, chosen inside forward as users do."""

    def __init__(self, backend: str, causal: bool) -> None:
        super().__init__()
        self.backend, self.causal = backend, causal

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        chosen = (
            nullcontext() if self.backend == "default" else sdpa_kernel(getattr(SDPBackend, self.backend))
        )
        with chosen:
            return F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)


class RMSNorm(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        floats = x.float()
        scaled = floats * torch.rsqrt(floats.square().mean(-1, keepdim=True) + 1e-6)
        return scaled.to(x.dtype) * self.weight


def rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding, halves paired."""
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat([-second, first], dim=-1) * sine


class LlamaLayer(torch.nn.Module):
    """A decoder layer: RMSNorm, rotary, grouped-query attention, SwiGLU."""

    def __init__(
        self, backend: str, width: int = 2048, heads: int = 16, groups: int = 4, length: int = 1024
    ) -> None:
        super().__init__()
        self.heads, self.groups, self.head = heads, groups, width // heads
        self.norm, self.mlp_norm = RMSNorm(width), RMSNorm(width)
        self.query = torch.nn.Linear(width, width, bias=False)
        self.key, self.value = (torch.nn.Linear(width, groups * self.head, bias=False) for _ in range(2))
        self.out = torch.nn.Linear(width, width, bias=False)
        self.gate, self.up = (torch.nn.Linear(width, 11 * width // 4, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(11 * width // 4, width, bias=False)
        self.attention = Attention(backend, causal=True)
        frequencies = 10000.0 ** (-torch.arange(0, self.head, 2) / self.head)
        angles = torch.outer(torch.arange(length), frequencies).repeat(1, 2)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x + self.out(self._attend(self.norm(x)))
        normed = self.mlp_norm(h)
        return h + self.down(F.silu(self.gate(normed)) * self.up(normed))

    def _attend(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        query = self.query(x).view(rows, length, self.heads, self.head).transpose(1, 2)
        key, value = (
            layer(x).view(rows, length, self.groups, self.head).transpose(1, 2)
            for layer in (self.key, self.value)
        )
        query, key = rotate(query, self.cosine, self.sine), rotate(key, self.cosine, self.sine)
        repeats = self.heads // self.groups
        key, value = (t.repeat_interleave(repeats, dim=1) for t in (key, value))
        return self.attention(query, key, value).transpose(1, 2).reshape(rows, length, width)


class VitBlock(torch.nn.Module):
    """A pre-norm encoder block of ViT-B."""

    def __init__(self, backend: str, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.mlp_norm = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.attention = Attention(backend, causal=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        qkv = self.qkv(self.norm(x)).reshape(rows, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        x = x + self.out(self.attention(query, key, value).transpose(1, 2).reshape(rows, length, width))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


class SelfAttention(torch.nn.Module):
    """`nn.MultiheadAttention` on one sequence, as in a ViT."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(768, 12, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        return self.attention(x, x, x, need_weights=False)


class UnetBlock(torch.nn.Module):
    """A residual block of a diffusion U-Net: GroupNorm, SiLU, convolution, the time embedding between."""

    def __init__(self, channels: int = 320, groups: int = 32, embedding: int = 1280) -> None:
        super().__init__()
        self.norm_in, self.norm_out = (torch.nn.GroupNorm(groups, channels) for _ in range(2))
        self.conv_in, self.conv_out = (torch.nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.time = torch.nn.Linear(embedding, channels)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        h = self.conv_in(F.silu(self.norm_in(x)))
        h = h + self.time(F.silu(time))[:, :, None, None]
        return x + self.conv_out(F.silu(self.norm_out(h)))


class ConvNextBlock(torch.nn.Module):
    """Depthwise 7×7, LayerNorm over channels, two products, layer scale."""

    def __init__(self, channels: int = 192) -> None:
        super().__init__()
        self.depthwise = torch.nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = torch.nn.LayerNorm(channels, eps=1e-6)
        self.up, self.down = torch.nn.Linear(channels, 4 * channels), torch.nn.Linear(4 * channels, channels)
        self.scale = torch.nn.Parameter(torch.full((channels,), 0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        h = self.scale * self.down(F.gelu(self.up(h)))
        return x + h.permute(0, 3, 1, 2)


def _build_llama() -> torch.nn.Module:
    import_torchvision()  # transformers imports it where it is installed
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=2, num_attention_heads=16,
        num_key_value_heads=4, max_position_embeddings=1024,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def _build_gpt2() -> torch.nn.Module:
    import_torchvision()
    import transformers

    return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=1024, n_layer=2, n_head=16))


def tensor_inputs(
    shapes: list[tuple[int, ...]], module: torch.nn.Module, dtype: torch.dtype, seed: int
) -> Call:
    """Normal values of these shapes where the module is."""
    device = next(module.parameters()).device
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(s, generator=generator).to(device=device, dtype=dtype) for s in shapes), {}


def token_inputs(
    use_cache: bool, module: torch.nn.Module, dtype: torch.dtype, seed: int, length: int = 512
) -> Call:
    """One row of tokens with its mask, by keyword."""
    device = next(module.parameters()).device
    ids = torch.randint(5, 30000, (1, length), generator=torch.Generator().manual_seed(seed)).to(device)
    return (), {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": use_cache}


def items() -> list[Item]:
    """All items; no library is imported before a module is built."""
    return [*_attention_blocks(), *_other_blocks(), *_whole_models()]


def _attention_blocks() -> list[Item]:
    llama, vit = partial(tensor_inputs, [(1, 1024, 2048)]), partial(tensor_inputs, [(32, 197, 768)])
    half = torch.bfloat16
    return [
        *(Item(f"llama-layer {b}", half, partial(LlamaLayer, b), llama) for b in BACKENDS),
        *(Item(f"vit-block {b}", half, partial(VitBlock, b), vit) for b in BACKENDS),
        Item("vit-block default fp16", torch.float16, partial(VitBlock, "default"), vit),
        Item("multihead-attention", half, SelfAttention, vit),
        Item("encoder-layer", half, _build_encoder_layer, vit),
    ]


def _build_encoder_layer() -> torch.nn.Module:
    return torch.nn.TransformerEncoderLayer(
        768, 12, 3072, activation="gelu", batch_first=True, norm_first=True
    )


def _other_blocks() -> list[Item]:
    unet = partial(tensor_inputs, [(4, 320, 64, 64), (4, 1280)])
    return [
        Item("unet-block", torch.float16, UnetBlock, unet),
        Item("convnext-block", torch.float16, ConvNextBlock, partial(tensor_inputs, [(32, 192, 28, 28)])),
    ]


def _whole_models() -> list[Item]:
    builders = {"llama-2-layers": _build_llama, "gpt2-2-layers": _build_gpt2}
    return [
        Item(
            f"{name} {'cache' if cached else 'no-cache'}",
            torch.bfloat16,
            build,
            partial(token_inputs, cached),
        )
        for name, build in builders.items()
        for cached in (False, True)
    ]
