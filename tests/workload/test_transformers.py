"""Models of transformers as workloads: equal layers in spite of `layer_idx`, caches that are no simple values, generation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import warpsmith
from warpsmith.config import Config

transformers = pytest.importorskip("transformers")


def test_generation_shows_equal_layers_and_why_caches_are_none(
    tmp_path: Path, with_peaks: Callable[..., Path]
) -> None:
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2}
    config = transformers.LlamaConfig(num_hidden_layers=2, vocab_size=64, pad_token_id=0, **sizes)
    model = transformers.LlamaForCausalLM(config).eval()
    ids = torch.randint(1, 64, (2, 8))
    settings = Config(archive=tmp_path / "a.db", cache=with_peaks(tmp_path / "cache"))
    with torch.no_grad(), warpsmith.capture(model, config=settings) as seen:
        model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=4, do_sample=False)
    layers = [r for r in seen.regions if r.kind == "LlamaDecoderLayer"]
    assert {r.reason for r in layers} == {
        "it is given a DynamicCache: only tensors and simple values make a task"
    }
    assert sum(r.calls for r in layers) == 2 * 4
    mlps = {r.inputs: r for r in seen.regions if r.kind == "LlamaMLP"}
    prefill, decode = mlps["float32[2,8,32]",], mlps["float32[2,1,32]",]
    assert prefill.paths == decode.paths == ("model.layers.0.mlp", "model.layers.1.mlp")
    assert (prefill.calls, decode.calls) == (2, 6)
