"""The workloads of `models.py`: whole models as people run them, from configurations, with random weights.

Each gives a model and the function that runs it, at three sizes: `tiny` for tests, `small` for two CPU cores, `full` as
served, in bfloat16. Nothing is downloaded. A run has no side effect but batch statistics, and gives the same each time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from import_torchvision import import_torchvision

Run = Callable[[torch.nn.Module], Any]
Sizes = dict[str, dict[str, Any]]  # of the configuration, by size
SIZES = ("tiny", "small", "full")
CERTAINTY = 2.0  # standard deviation of token embeddings: how far the next token stands out


@dataclass(frozen=True)
class Workload:
    """A model by name: what it stands for, how it is built at a size, and how it is run.

    `make_run` takes the model, the size and whether the run is for compiled code: with a cache of a fixed size, say.
    """

    name: str
    family: str
    build: Callable[[str], torch.nn.Module]
    make_run: Callable[[torch.nn.Module, str, bool], Run]
    training: bool = False

    def make_model(self, size: str, device: str) -> torch.nn.Module:
        import_torchvision()  # transformers imports it where it is installed
        torch.manual_seed(0)
        model = self.build(size).to(device)
        model = model.to(torch.bfloat16) if size == "full" else model
        return model.train(self.training)


def workloads() -> list[Workload]:
    """All workloads, in the order of the page. No library is imported before a model is built."""
    return [
        Workload("llama", "decoder, generation with a KV cache", build_llama, partial(run_generation, False)),
        Workload("llama-static", "decoder, generation with a KV cache of a fixed size", build_llama, partial(run_generation, True)),
        Workload("gpt2", "decoder, loss of a text", build_gpt2, run_loss),
        Workload("vit", "vision transformer", build_vit, partial(run_images, _VIT)),
        Workload("resnet", "convolutions, evaluation", build_resnet, partial(run_images, _RESNET)),
        Workload("resnet-train", "convolutions, loss and gradients", build_resnet, run_training, training=True),
        Workload("unet", "diffusion U-Net, one step", build_unet, run_unet_step),
        Workload("mamba", "selective scan, plain path", build_mamba, run_mamba),
    ]  # fmt: skip


# Models

_LLAMA: Sizes = {
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256},
    "small": {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 4096},
    "full": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256},
}  # fmt: skip
_PROMPT = {"tiny": (1, 8, 4), "small": (1, 64, 32), "full": (1, 128, 64)}  # rows, tokens, new tokens
_GPT2: Sizes = {
    "tiny": {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 256, "n_positions": 64},
    "small": {"n_embd": 256, "n_layer": 4, "n_head": 8, "vocab_size": 4096, "n_positions": 256},
    "full": {},
}  # fmt: skip
_TEXT = {"tiny": (2, 16), "small": (2, 128), "full": (8, 1024)}  # rows, tokens
_VIT: Sizes = {
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32, "patch_size": 8},
    "small": {"hidden_size": 192, "intermediate_size": 768, "num_hidden_layers": 4, "num_attention_heads": 3, "image_size": 128},
    "full": {},
}  # fmt: skip
_RESNET: Sizes = {
    "tiny": {"embedding_size": 16, "hidden_sizes": [32, 64], "depths": [1, 1], "image_size": 32},
    "small": {"depths": [2, 2, 2, 2], "image_size": 96},
    "full": {"depths": [3, 4, 6, 3], "image_size": 224},  # ResNet-50
}
_IMAGES = {"tiny": 2, "small": 2, "full": 32}
_UNET: Sizes = {
    "tiny": {"block_out_channels": (16, 32), "layers_per_block": 1, "cross_attention_dim": 16, "attention_head_dim": 8, "norm_num_groups": 8, "sample_size": 8},
    "small": {"block_out_channels": (32, 64), "layers_per_block": 2, "cross_attention_dim": 64, "attention_head_dim": 8, "norm_num_groups": 16, "sample_size": 16},
    "full": {"block_out_channels": (320, 640, 1280, 1280), "cross_attention_dim": 768, "attention_head_dim": 8, "sample_size": 64},
}  # fmt: skip
_MAMBA: Sizes = {
    "tiny": {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 256, "state_size": 4},
    "small": {"hidden_size": 128, "num_hidden_layers": 2, "vocab_size": 4096},
    "full": {"hidden_size": 768, "num_hidden_layers": 24, "vocab_size": 50280},  # Mamba-130M
}
_SCANNED = {"tiny": (1, 8), "small": (2, 32), "full": (4, 128)}  # rows, tokens


def build_llama(size: str) -> torch.nn.Module:
    """Llama 3.2 1B at full size. The head names each token's successor, so that tokens are as sure as a trained model's."""
    import transformers

    config = transformers.LlamaConfig(
        **_LLAMA[size], max_position_embeddings=2048, rope_parameters={"rope_type": "default", "rope_theta": 5e5},
        tie_word_embeddings=False, bos_token_id=0, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        embedding = model.get_input_embeddings().weight.normal_(std=CERTAINTY)
        model.lm_head.weight.copy_(embedding.roll(1, 0) * embedding.shape[1] ** -0.5)
    return model


def build_gpt2(size: str) -> torch.nn.Module:
    import transformers

    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(**_GPT2[size], use_cache=False, bos_token_id=0, eos_token_id=0)
    )


def build_vit(size: str) -> torch.nn.Module:
    """ViT-B/16 at full size."""
    import transformers

    return transformers.ViTForImageClassification(transformers.ViTConfig(**_VIT[size], num_labels=1000))


def build_resnet(size: str) -> torch.nn.Module:
    """ResNet-50 at full size."""
    import transformers

    sizes = {name: value for name, value in _RESNET[size].items() if name != "image_size"}
    return transformers.ResNetForImageClassification(transformers.ResNetConfig(**sizes, num_labels=1000))


def build_unet(size: str) -> torch.nn.Module:
    """The U-Net of Stable Diffusion 1.5 at full size."""
    from diffusers import UNet2DConditionModel

    sizes = dict(_UNET[size])
    if size != "full":
        sizes["down_block_types"] = ("CrossAttnDownBlock2D", "DownBlock2D")
        sizes["up_block_types"] = ("UpBlock2D", "CrossAttnUpBlock2D")
    return UNet2DConditionModel(**sizes)


def build_mamba(size: str) -> torch.nn.Module:
    import transformers

    return transformers.MambaForCausalLM(transformers.MambaConfig(**_MAMBA[size], use_cache=False))


# Runs


def run_generation(static: bool, model: torch.nn.Module, size: str, compiled: bool) -> Run:
    """Greedy generation. `static`: with a cache of a fixed size, which compiled code gets in any case, as the library advises."""
    rows, length, new = _PROMPT[size]
    ids = _draw_tokens(model, (rows, length))
    options: dict[str, Any] = {"max_new_tokens": new, "do_sample": False}
    if static or compiled:  # what is to be compiled is so already
        options |= {"cache_implementation": "static", "disable_compile": True}

    def run(model: torch.nn.Module) -> torch.Tensor:
        with torch.no_grad():
            return model.generate(ids, attention_mask=torch.ones_like(ids), **options)[:, length:]  # type: ignore[operator]

    return run


def run_loss(model: torch.nn.Module, size: str, compiled: bool) -> Run:
    ids = _draw_tokens(model, _TEXT[size])

    def run(model: torch.nn.Module) -> Any:
        with torch.no_grad():
            return model(input_ids=ids, labels=ids)

    return run


def run_images(sizes: Sizes, model: torch.nn.Module, size: str, compiled: bool) -> Run:
    images = _draw_images(model, sizes[size].get("image_size", 224), size)

    def run(model: torch.nn.Module) -> Any:
        with torch.no_grad():
            return model(pixel_values=images)

    return run


def run_training(model: torch.nn.Module, size: str, compiled: bool) -> Run:
    """A loss and its gradients, without the optimizer's step. It returns the loss, the first and the last gradient."""
    images = _draw_images(model, _RESNET[size]["image_size"], size)
    labels = torch.arange(len(images), device=images.device)

    def run(model: torch.nn.Module) -> tuple[torch.Tensor, ...]:
        loss = model(pixel_values=images, labels=labels).loss
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        return loss.detach(), gradients[0], gradients[-1]

    return run


def run_unet_step(model: torch.nn.Module, size: str, compiled: bool) -> Run:
    """One step of denoising: latents, a moment, the text's states."""
    side, width = _UNET[size]["sample_size"], _UNET[size]["cross_attention_dim"]
    latents, states = _draw(model, (2, 4, side, side)), _draw(model, (2, 77 if size == "full" else 8, width))
    moment = torch.tensor(10, device=latents.device)

    def run(model: torch.nn.Module) -> Any:
        with torch.no_grad():
            return model(latents, moment, encoder_hidden_states=states, return_dict=False)[0]

    return run


def run_mamba(model: torch.nn.Module, size: str, compiled: bool) -> Run:
    ids = _draw_tokens(model, _SCANNED[size])

    def run(model: torch.nn.Module) -> Any:
        with torch.no_grad():
            return model(input_ids=ids)

    return run


def _draw_tokens(model: torch.nn.Module, shape: tuple[int, ...]) -> torch.Tensor:
    parameter, generator = next(model.parameters()), torch.Generator().manual_seed(0)
    return torch.randint(5, model.config.vocab_size, shape, generator=generator).to(parameter.device)  # type: ignore[union-attr,arg-type]


def _draw_images(model: torch.nn.Module, side: int, size: str) -> torch.Tensor:
    return _draw(model, (_IMAGES[size], 3, side, side))


def _draw(model: torch.nn.Module, shape: tuple[int, ...]) -> torch.Tensor:
    parameter = next(model.parameters())
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(
        parameter.device, parameter.dtype
    )
