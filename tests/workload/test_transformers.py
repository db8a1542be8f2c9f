"""Models of transformers as workloads: equal layers in spite of `layer_idx`, caches that grow and caches of a fixed size, generation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import warpsmith
from warpsmith.composition.compose import list_equal_layers
from warpsmith.config import Config
from warpsmith.workload.recorder import MOST_CHANGING
from warpsmith.workload.recording import Recording, export_layer

transformers = pytest.importorskip("transformers")


def capture_generation(model: torch.nn.Module, settings: Config, **options: object) -> Recording:
    ids = torch.randint(1, 64, (2, 8))
    with torch.no_grad(), warpsmith.capture(model, config=settings) as seen:
        model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=4, do_sample=False, **options)
    return seen


@pytest.fixture(name="model")
def _model() -> torch.nn.Module:
    return make_model(layers=2)


def make_model(layers: int) -> torch.nn.Module:
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2}
    config = transformers.LlamaConfig(num_hidden_layers=layers, vocab_size=64, pad_token_id=0, **sizes)
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture(name="settings")
def _settings(tmp_path: Path, with_peaks: Callable[..., Path]) -> Config:
    return Config(archive=tmp_path / "a.db", cache=with_peaks(tmp_path / "cache"))


def test_generation_shows_equal_layers_and_why_caches_that_grow_are_none(
    model: torch.nn.Module, settings: Config
) -> None:
    seen = capture_generation(model, settings)
    layers = [r for r in seen.regions if r.kind == "LlamaDecoderLayer"]
    assert {r.reason for r in layers} == {
        "its calls change the form of a DynamicCache: only one of a fixed size makes a task"
    }
    assert sum(r.calls for r in layers) == 2 * 4
    mlps = {r.inputs: r for r in seen.regions if r.kind == "LlamaMLP"}
    prefill, decode = mlps["float32[2,8,32]",], mlps["float32[2,1,32]",]
    assert prefill.paths == decode.paths == ("model.layers.0.mlp", "model.layers.1.mlp")
    assert (prefill.calls, decode.calls) == (2, 6)


def test_a_prompt_that_fills_many_layers_caches_does_not_hide_the_tokens_after_it(
    settings: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each layer's call of the prompt changes the cache from another form."""
    monkeypatch.setattr("warpsmith.workload.recording.LARGEST_REGION", 20)
    monkeypatch.setattr("warpsmith.workload.recording.LEAST_SHARE", 0.0)  # a first call may take long
    count = MOST_CHANGING + 2
    model = make_model(layers=count)
    seen = capture_generation(model, settings, cache_implementation="static", disable_compile=True)
    layers = [r for r in seen.regions if r.kind == "LlamaDecoderLayer"]
    assert [(r.count, r.calls) for r in layers if not r.reason] == [(count, count * 3)]
    assert [(r.count, r.calls) for r in layers if "change the form" in r.reason] == [(count, count)]


def test_layers_that_share_a_cache_of_a_fixed_size_are_equal(
    model: torch.nn.Module, settings: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reads and writes its own part of it: the others are no inputs of its task."""
    monkeypatch.setattr("warpsmith.workload.recording.LARGEST_REGION", 20)  # the whole model is none
    monkeypatch.setattr("warpsmith.workload.recording.LEAST_SHARE", 0.0)  # a first call may take long
    seen = capture_generation(model, settings, cache_implementation="static", disable_compile=True)
    layers = [r for r in seen.regions if r.kind == "LlamaDecoderLayer"]
    decode = next(r for r in layers if not r.reason)
    assert decode.paths == ("model.layers.0", "model.layers.1")
    assert decode.calls == 2 * 3
    assert [r.calls for r in layers if "change the form of a StaticCache" in r.reason] == [2]
    example = seen.example(decode)
    graph = export_layer(example)
    names = [i.name for i in graph.inputs if i.role == "input"]
    parts = ["keys", "values", "cumulative_length"]
    assert [n.partition("_layers_")[2] for n in names if "_layers_" in n] == parts
    equal, different = list_equal_layers(
        graph, decode.paths[1:], lambda path: export_layer(example, model.get_submodule(path))
    )
    assert (list(equal), different) == (["model.layers.1"], [])
    assert equal["model.layers.1"] != graph.call
