"""The 80 model classes of `model_zoo.py`: transformers, torchvision and timm, unchanged, from small configurations.

Each entry builds its module with random weights (nothing is downloaded) and its inputs from a seed, as a user would
call it. Inputs that a call may change, caches above all, are built anew for each call; the same seed gives the same values.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

Call = tuple[tuple[Any, ...], dict[str, Any]]
VOCABULARY = 512
TOKENS = 32


@dataclass(frozen=True)
class Entry:
    """A model class, how its small module is built, and how it is called."""

    library: str
    name: str
    family: str
    build: Callable[[], torch.nn.Module]
    inputs: Callable[[torch.nn.Module, int], Call] = field(repr=False)

    def make_module(self) -> torch.nn.Module:
        torch.manual_seed(0)
        return self.build().eval()


def entries() -> list[Entry]:
    """All entries, in the order of the pages. No library is imported before a module is built."""
    return [*_transformers(), *_torchvision(), *_timm()]


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _tokens(generator: torch.Generator, rows: int, length: int) -> torch.Tensor:
    return torch.randint(5, VOCABULARY, (rows, length), generator=generator)


# Inputs, as users pass them.


def text_inputs(module: torch.nn.Module, seed: int, length: int = TOKENS, **options: Any) -> Call:
    """Two rows of tokens with their mask, as a tokenizer gives them for two texts of one length."""
    ids = _tokens(_generator(seed), 2, length)
    return (), {"input_ids": ids, "attention_mask": torch.ones_like(ids), **options}


def padded_text_inputs(module: torch.nn.Module, seed: int, length: int = TOKENS, **options: Any) -> Call:
    """Two texts, of which the second is shorter and padded at the right."""
    _, kwargs = text_inputs(module, seed, length, **options)
    kwargs["attention_mask"][1, -length // 4 :] = 0
    return (), kwargs


def decode_inputs(module: torch.nn.Module, seed: int, past: int = TOKENS) -> Call:
    """One new token for each of two rows, with a cache that holds `past` tokens of each layer."""
    from transformers import DynamicCache

    config, generator = module.config, _generator(seed)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    cache = DynamicCache(config=config)
    for layer in range(config.num_hidden_layers):
        keys, values = (torch.randn(2, heads, past, width, generator=generator) for _ in range(2))
        cache.update(keys, values, layer)
    ids = _tokens(generator, 2, 1)
    mask = torch.ones(2, past + 1, dtype=torch.long)
    return (), {"input_ids": ids, "attention_mask": mask, "past_key_values": cache, "use_cache": True}


def translation_inputs(module: torch.nn.Module, seed: int) -> Call:
    """A padded source text and the first tokens of its translation."""
    _, kwargs = padded_text_inputs(module, seed)
    return (), {**kwargs, "decoder_input_ids": _tokens(_generator(seed + 1), 2, 8)}


def image_inputs(module: torch.nn.Module, seed: int, size: int = 64, rows: int = 2) -> Call:
    """Images of transformers, by keyword."""
    return (), {"pixel_values": torch.randn(rows, 3, size, size, generator=_generator(seed))}


def masked_image_inputs(module: torch.nn.Module, seed: int, size: int = 64) -> Call:
    """Images of one size with the mask of their pixels, as detectors get them."""
    _, kwargs = image_inputs(module, seed, size)
    return (), {**kwargs, "pixel_mask": torch.ones(2, size, size, dtype=torch.long)}


def clip_inputs(module: torch.nn.Module, seed: int) -> Call:
    return (), {**text_inputs(module, seed, 16)[1], **image_inputs(module, seed)[1]}


def wave_inputs(module: torch.nn.Module, seed: int, samples: int = 4000) -> Call:
    return (), {"input_values": torch.randn(2, samples, generator=_generator(seed))}


def spectrogram_inputs(module: torch.nn.Module, seed: int) -> Call:
    """A log-mel spectrogram for the audio transformer, time before frequency."""
    config = module.config
    shape = (2, config.max_length, config.num_mel_bins)
    return (), {"input_values": torch.randn(shape, generator=_generator(seed))}


def whisper_inputs(module: torch.nn.Module, seed: int, decoder: bool = True) -> Call:
    """A log-mel spectrogram at Whisper's one length and, for the whole model, the first tokens of the text."""
    config, generator = module.config, _generator(seed)
    features = torch.randn(2, config.num_mel_bins, 2 * config.max_source_positions, generator=generator)
    more = {"decoder_input_ids": _tokens(generator, 2, 8)} if decoder else {}
    return (), {"input_features": features, **more}


def picture_inputs(module: torch.nn.Module, seed: int, size: int = 64, rows: int = 2) -> Call:
    """Images of torchvision and timm, by position."""
    return (torch.randn(rows, 3, size, size, generator=_generator(seed)),), {}


def video_inputs(module: torch.nn.Module, seed: int, frames: int = 8, size: int = 64) -> Call:
    return (torch.randn(1, 3, frames, size, size, generator=_generator(seed)),), {}


# transformers

_TEXT = {
    "vocab_size": VOCABULARY, "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 256, "max_position_embeddings": 128,
}  # fmt: skip
_GROUPED = {**_TEXT, "num_key_value_heads": 2}  # decoders with fewer heads of keys
_GPT2 = {"vocab_size": VOCABULARY, "n_embd": 128, "n_layer": 2, "n_head": 4, "n_positions": 128}
_IMAGE = {
    "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 192,
    "image_size": 64, "patch_size": 8,
}  # fmt: skip
_SEQ2SEQ = {
    "vocab_size": VOCABULARY, "d_model": 128, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 256,
    "decoder_ffn_dim": 256, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
}  # fmt: skip
_T5 = {"vocab_size": VOCABULARY, "d_model": 128, "d_kv": 32, "d_ff": 256, "num_layers": 2, "num_heads": 4}
_SPEECH = {
    "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 192, "vocab_size": 32,
    "conv_dim": (32,) * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
}  # fmt: skip
_WHISPER = {
    **_SEQ2SEQ, "num_mel_bins": 80, "max_source_positions": 64, "max_target_positions": 64, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "suppress_tokens": None,
    "begin_suppress_tokens": None,
}  # fmt: skip
_STAGES = {"depths": [2, 2], "embed_dim": 32, "num_heads": [2, 4], "image_size": 64, "window_size": 4}


def _from_config(class_name: str, options: dict[str, Any]) -> torch.nn.Module:
    """The class with a configuration of its own kind."""
    from import_torchvision import import_torchvision

    import_torchvision()  # transformers imports it where it is installed
    import transformers

    model = getattr(transformers, class_name)
    return model(model.config_class(**options))


def _build_clip() -> torch.nn.Module:
    return _from_config("CLIPModel", {"text_config": {**_TEXT, "eos_token_id": 2}, "vision_config": _IMAGE})


def _build_detr() -> torch.nn.Module:
    """The detector on a small residual network of transformers' own."""
    import transformers

    backbone = transformers.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic", out_features=["stage2"]
    )
    options = {**_SEQ2SEQ, "num_queries": 10, "use_timm_backbone": False, "use_pretrained_backbone": False}
    options.pop("vocab_size")
    return _from_config("DetrForObjectDetection", {**options, "backbone_config": backbone, "backbone": None})


def _build_whisper_encoder() -> torch.nn.Module:
    return _from_config("WhisperModel", _WHISPER).encoder


def _hf(
    name: str,
    family: str,
    options: dict[str, Any],
    inputs: Callable[..., Call] = text_inputs,
    variant: str = "",
    **arguments: Any,
) -> Entry:
    """An entry named by its class; `variant` tells two of one class apart, `arguments` go to the inputs."""
    title = f"{name} ({variant})" if variant else name
    return Entry(
        "transformers", title, family, partial(_from_config, name, options), partial(inputs, **arguments)
    )


def _transformers() -> list[Entry]:
    return [*_encoders(), *_decoders(), *_vision_models(), *_audio_models(), *_other_models()]


def _encoders() -> list[Entry]:
    distil = {"vocab_size": VOCABULARY, "dim": 128, "n_layers": 2, "n_heads": 4, "hidden_dim": 256}
    roberta = {**_TEXT, "max_position_embeddings": 130}
    modern = {
        **_TEXT,
        "pad_token_id": 0,
        "cls_token_id": 1,
        "sep_token_id": 2,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    deberta = {
        **_TEXT,
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
    }
    return [
        _hf("BertModel", "encoder", _TEXT),
        _hf("BertForSequenceClassification", "encoder", _TEXT, padded_text_inputs),
        _hf("RobertaForMaskedLM", "encoder", roberta),
        _hf("DistilBertForQuestionAnswering", "encoder", distil),
        _hf("DebertaV2ForSequenceClassification", "encoder", deberta),
        _hf("AlbertModel", "encoder", {**_TEXT, "embedding_size": 64}),
        _hf("ElectraForPreTraining", "encoder", {**_TEXT, "embedding_size": 64}),
        _hf("MPNetModel", "encoder", _TEXT, padded_text_inputs),
        _hf("ModernBertForMaskedLM", "encoder", modern),
    ]


def _decoders() -> list[Entry]:
    gemma = {**_GROUPED, "head_dim": 32}
    opt = {
        "vocab_size": VOCABULARY, "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "ffn_dim": 256, "max_position_embeddings": 128, "word_embed_proj_dim": 128,
    }  # fmt: skip
    bloom = {"vocab_size": VOCABULARY, "hidden_size": 128, "n_layer": 2, "n_head": 4}
    experts = {**_GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2}
    decode, no_cache = partial(_hf, inputs=decode_inputs, variant="decode"), partial(_hf, use_cache=False)
    return [
        _hf("GPT2LMHeadModel", "decoder, cache returned", _GPT2),
        decode("GPT2LMHeadModel", "decoder, cache given", _GPT2),
        _hf("LlamaForCausalLM", "decoder, cache returned", _GROUPED),
        decode("LlamaForCausalLM", "decoder, cache given", _GROUPED),
        no_cache("MistralForCausalLM", "decoder", _GROUPED),
        _hf("Qwen2ForCausalLM", "decoder, cache returned", _GROUPED, padded_text_inputs, use_cache=True),
        decode("Qwen3ForCausalLM", "decoder, cache given", {**_GROUPED, "head_dim": 32}),
        no_cache("Gemma2ForCausalLM", "decoder", gemma),
        _hf("Phi3ForCausalLM", "decoder, cache returned", {**_GROUPED, "pad_token_id": 0}),
        no_cache("OPTForCausalLM", "decoder", opt),
        no_cache("GPTNeoXForCausalLM", "decoder", _TEXT),
        _hf("FalconForCausalLM", "decoder, cache returned", _TEXT),
        no_cache("BloomForCausalLM", "decoder", bloom),
        no_cache("MixtralForCausalLM", "mixture of experts", experts),
    ]


def _vision_models() -> list[Entry]:
    beit = {**_IMAGE, "use_relative_position_bias": True, "use_mask_token": False}
    segformer = {
        "num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [4, 2], "hidden_sizes": [32, 64],
        "patch_sizes": [7, 3], "strides": [4, 2], "num_attention_heads": [1, 2], "mlp_ratios": [2, 2],
        "decoder_hidden_size": 64,
    }  # fmt: skip
    yolos = {**_IMAGE, "image_size": [64, 64], "num_detection_tokens": 10}
    clip = Entry("transformers", "CLIPModel", "vision and text", _build_clip, clip_inputs)
    detr = Entry("transformers", "DetrForObjectDetection", "detection", _build_detr, masked_image_inputs)
    return [
        _hf("ViTForImageClassification", "vision", _IMAGE, image_inputs),
        _hf("SwinForImageClassification", "vision", _STAGES, image_inputs),
        _hf("ConvNextForImageClassification", "vision", {"hidden_sizes": [32, 64], "depths": [2, 2], "num_stages": 2}, image_inputs),
        _hf("BeitForImageClassification", "vision", beit, image_inputs),
        _hf("Dinov2Model", "vision", {**_IMAGE, "mlp_ratio": 2}, image_inputs),
        _hf("SegformerForSemanticSegmentation", "segmentation", segformer, image_inputs),
        _hf("YolosForObjectDetection", "detection", yolos, image_inputs),
        clip,
        detr,
    ]  # fmt: skip


def _audio_models() -> list[Entry]:
    ast = {
        "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 192,
        "max_length": 64, "num_mel_bins": 32,
    }  # fmt: skip
    encoder = partial(whisper_inputs, decoder=False)
    return [
        _hf("Wav2Vec2ForCTC", "audio", _SPEECH, wave_inputs),
        _hf("WhisperForConditionalGeneration", "audio to text", _WHISPER, whisper_inputs),
        Entry("transformers", "WhisperEncoder", "audio", _build_whisper_encoder, encoder),
        _hf("ASTForAudioClassification", "audio", ast, spectrogram_inputs),
    ]


def _other_models() -> list[Entry]:
    mamba = {"vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 8}
    mamba2 = {**mamba, "num_heads": 8, "head_dim": 16, "n_groups": 1, "chunk_size": 16}
    return [
        _hf("T5ForConditionalGeneration", "encoder–decoder", _T5, translation_inputs),
        _hf("BartForConditionalGeneration", "encoder–decoder", _SEQ2SEQ, translation_inputs),
        _hf("MambaForCausalLM", "state space", mamba),
        _hf("Mamba2ForCausalLM", "state space", mamba2),
    ]


# torchvision


def _from_torchvision(path: str, make: Callable[[Any], torch.nn.Module]) -> torch.nn.Module:
    """What `make` builds of a module of `torchvision.models`."""
    from import_torchvision import import_torchvision

    import_torchvision()
    return make(importlib.import_module(f"torchvision.models{path}"))


def _tv(
    name: str,
    family: str,
    path: str,
    make: Callable[[Any], torch.nn.Module],
    inputs: Callable[..., Call] = picture_inputs,
    **arguments: Any,
) -> Entry:
    return Entry(
        "torchvision", name, family, partial(_from_torchvision, path, make), partial(inputs, **arguments)
    )


def _build_efficientnet(models: Any, fused: bool) -> torch.nn.Module:
    """The class of both versions, with a quarter of B0's channels and one block a stage."""
    first = (
        models.FusedMBConvConfig(4, 3, 1, 16, 16, 1)
        if fused
        else models.MBConvConfig(1, 3, 1, 16, 16, 1, 1, 1)
    )
    rest = [(6, 3, 2, 16, 16), (6, 5, 2, 16, 24), (6, 3, 2, 24, 32)]
    stages = [first, *(models.MBConvConfig(*sizes, 1, 1, 1) for sizes in rest)]
    return models.EfficientNet(stages, dropout=0.2, last_channel=64, num_classes=10)


def _build_convnext(models: Any) -> torch.nn.Module:
    return models.ConvNeXt(
        [models.CNBlockConfig(32, 64, 2), models.CNBlockConfig(64, None, 2)], num_classes=10
    )


def _build_regnet(models: Any) -> torch.nn.Module:
    sizes = models.BlockParams.from_init_params(
        depth=5, w_0=16, w_a=16.0, w_m=2.5, group_width=8, se_ratio=0.25
    )
    return models.RegNet(sizes, num_classes=10)


def _build_maxvit(models: Any) -> torch.nn.Module:
    return models.MaxVit(
        input_size=(64, 64), stem_channels=16, partition_size=4, block_channels=[16, 32], block_layers=[1, 1],
        head_dim=8, stochastic_depth_prob=0.0, num_classes=10,
    )  # fmt: skip


def _build_video(models: Any) -> torch.nn.Module:
    block, conv, stem = models.BasicBlock, models.Conv3DSimple, models.BasicStem
    return models.VideoResNet(block, [conv] * 4, [1, 1, 1, 1], stem, num_classes=10)


def _build_deeplab(models: Any) -> torch.nn.Module:
    return models.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5)


def _torchvision() -> list[Entry]:
    return [*_torchvision_convolutions(), *_torchvision_others()]


def _torchvision_convolutions() -> list[Entry]:
    few, layers = {"num_classes": 10}, [1, 1, 1, 1]
    inverted = [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 3, 2]]
    return [
        _tv("ResNet (basic)", "convolution", ".resnet", lambda m: m.ResNet(m.BasicBlock, layers, **few)),
        _tv("ResNet (bottleneck)", "convolution", ".resnet", lambda m: m.ResNet(m.Bottleneck, layers, **few)),
        _tv(
            "ResNet (ResNeXt)", "convolution", ".resnet",
            lambda m: m.ResNet(m.Bottleneck, layers, groups=8, width_per_group=4, **few),
        ),
        _tv("DenseNet", "convolution", ".densenet", lambda m: m.DenseNet(16, (3, 3, 3), 32, **few)),
        _tv(
            "MobileNetV2", "convolution", ".mobilenetv2",
            lambda m: m.MobileNetV2(inverted_residual_setting=inverted, **few),
        ),
        _tv("MobileNetV3", "convolution", ".mobilenetv3", lambda m: m.mobilenet_v3_small(width_mult=0.5, **few)),
        _tv("EfficientNet (B0)", "convolution", ".efficientnet", partial(_build_efficientnet, fused=False)),
        _tv("EfficientNet (V2)", "convolution", ".efficientnet", partial(_build_efficientnet, fused=True)),
        _tv("RegNet", "convolution", ".regnet", _build_regnet),
        _tv("ConvNeXt", "convolution", ".convnext", _build_convnext),
        _tv("VGG", "convolution", ".vgg", lambda m: m.vgg11_bn(weights=None, **few)),
        _tv("SqueezeNet", "convolution", ".squeezenet", lambda m: m.squeezenet1_1(weights=None, **few)),
        _tv(
            "ShuffleNetV2", "convolution", ".shufflenetv2",
            lambda m: m.ShuffleNetV2([2, 2, 2], [24, 32, 64, 128, 256], **few),
        ),
        _tv("MNASNet", "convolution", ".mnasnet", lambda m: m.MNASNet(0.35, **few)),
        _tv("GoogLeNet", "convolution", ".googlenet", lambda m: m.GoogLeNet(init_weights=False, **few)),
    ]  # fmt: skip


def _torchvision_others() -> list[Entry]:
    few, vision = {"num_classes": 10}, "vision transformer"
    return [
        _tv("VisionTransformer", vision, ".vision_transformer", lambda m: m.VisionTransformer(64, 16, 2, 4, 96, 192, **few)),
        _tv(
            "SwinTransformer", vision, ".swin_transformer",
            lambda m: m.SwinTransformer([4, 4], 32, [2, 2], [2, 4], [4, 4], **few),
        ),
        _tv("MaxVit", vision, ".maxvit", _build_maxvit),
        _tv("DeepLabV3 (MobileNetV3)", "segmentation", ".segmentation", _build_deeplab),
        _tv("VideoResNet (R3D)", "video", ".video.resnet", _build_video, video_inputs, frames=4, size=32),
    ]  # fmt: skip


# timm


def _import_timm(module: str = "") -> Any:
    from import_torchvision import import_torchvision

    import_torchvision()  # timm imports it where it is installed
    return importlib.import_module(f"timm.{module}".rstrip("."))


def _from_timm(name: str, options: dict[str, Any]) -> torch.nn.Module:
    return _import_timm().create_model(name, pretrained=False, num_classes=10, **options)


def _build_mixer() -> torch.nn.Module:
    return _import_timm("models.mlp_mixer").MlpMixer(
        num_classes=10, img_size=64, patch_size=16, num_blocks=2, embed_dim=128
    )


def _build_poolformer() -> torch.nn.Module:
    m = _import_timm("models.metaformer")

    return m.MetaFormer(
        depths=(1, 1, 1, 1), dims=(16, 32, 64, 128), downsample_norm=None, mlp_act=torch.nn.GELU, mlp_bias=True,
        norm_layers=m.GroupNorm1, layer_scale_init_values=1e-5, res_scale_init_values=None, use_mlp_head=False,
        num_classes=10,
    )  # fmt: skip


def _timm_entry(name: str, family: str, options: dict[str, Any] | None = None, **arguments: Any) -> Entry:
    build = partial(_from_timm, name, options or {})
    return Entry("timm", name, family, build, partial(picture_inputs, **arguments))


def _timm() -> list[Entry]:
    return [*_timm_convolutions(), *_timm_others()]


def _timm_convolutions() -> list[Entry]:
    add, stages = _timm_entry, {"depths": (1, 1, 1, 1), "dims": (16, 32, 64, 128)}
    return [
        add("resnet50", "convolution", {"layers": (1, 1, 1, 1)}),
        add("efficientnet_b0", "convolution"),
        add("convnext_atto", "convolution", stages),
        add("regnety_002", "convolution"),
        add("mobilenetv3_small_050", "convolution"),
        add("mobilenetv4_conv_small_050", "convolution"),
        add("hrnet_w18_small", "convolution"),
        Entry("timm", "MetaFormer (PoolFormer)", "vision transformer", _build_poolformer, picture_inputs),
        add("edgenext_xx_small", "vision transformer", {"depths": (1, 1, 2, 1)}),
        add("mobilevit_xxs", "vision transformer"),
    ]


def _timm_others() -> list[Entry]:
    add, vision, small = _timm_entry, "vision transformer", {"img_size": 64}
    swin = {"window_size": 4, "depths": (2, 2), "embed_dim": 32, "num_heads": (2, 4)}
    levit = {"embed_dim": (32, 48, 64), "depth": (1, 1, 1), "num_heads": (2, 3, 4), "key_dim": 16}
    beit = {"depth": 2, "embed_dim": 96, "num_heads": 3}
    return [
        add("vit_tiny_patch16_224", vision, {**small, "depth": 2}),
        add("deit_tiny_patch16_224", vision, {**small, "depth": 2}),
        add("swin_tiny_patch4_window7_224", vision, {**small, **swin}),
        Entry("timm", "MlpMixer", "multilayer perceptron", _build_mixer, picture_inputs),
        add("maxvit_rmlp_pico_rw_256", vision, {**small, "embed_dim": (32, 64), "depths": (1, 1)}),
        add("coatnet_nano_rw_224", vision, {**small, "embed_dim": (32, 32, 64, 64), "depths": (1, 1, 1, 1)}),
        add("levit_128s", vision, levit, size=224),
        add("pit_ti_224", vision, {**small, "depth": (1, 1, 1)}),
        add("cait_xxs24_224", vision, {**small, "depth": 2, "embed_dim": 96}),
        add("beit_base_patch16_224", vision, {**small, **beit}),
    ]
