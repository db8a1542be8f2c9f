"""Calls of a whole module as replays of one graph answer as the module does, and are not replayed where they would not."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_device import FakeDevice, ReplaysOfState
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from warpsmith.composition.whole_call import WholeCall, find_difference
from warpsmith.errors import TaskError
from warpsmith.runtime import full_graph
from warpsmith.runtime.full_graph import FullGraph, GraphedCall
from warpsmith.runtime.graph_replays import CALLS_BEFORE, CudaDevice, Device, GraphReplays
from warpsmith.runtime.module import OptimizedModule
from warpsmith.tasks.memory import export_module
from warpsmith.workload.calls import copy_example

REPLAYS = 3
CALLS = (
    CALLS_BEFORE + 1 + REPLAYS
)  # the call that is captured is answered by a replay, too, and counts as none


class Block(nn.Module):
    def __init__(self, effect: str = "") -> None:
        super().__init__()
        self.first, self.second, self.effect = nn.Linear(8, 8), nn.Linear(8, 8), effect
        self.register_buffer("total", torch.zeros(8))
        self.calls, self.log = 0, [0]

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
        if self.effect == "attribute":
            self.calls += 1
        elif self.effect == "list":
            self.log.append(len(self.log))
        elif self.effect == "argument":
            x.add_(1)
        self.total.add_(x.sum(0))
        y = self.second(torch.relu(self.first(x)))
        return y * scale, self.total.clone()


class Sorted(Block):
    def forward(self, x: torch.Tensor, scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
        if not torch.equal(x, x.sort()[0]):
            raise ValueError("x is not sorted")
        return super().forward(x, scale)


class Late(FakeDevice):
    """Its replays answer what the recording answered, whatever they read."""

    def capture(self, function: Callable[[], Any]) -> tuple[Any, Any]:
        recorded, leaves = super().capture(function)
        recorded.function = lambda kept=tuple(leaf.clone() for leaf in leaves): kept
        return recorded, leaves


class Otherwise(FakeDevice):
    """A recorded call computes with other algorithms, which change each value by a part of it."""

    part = 0.0

    def capture(self, function: Callable[[], Any]) -> tuple[Any, Any]:
        return super().capture(lambda: tuple(leaf * (1 + self.part) for leaf in function()))


@pytest.fixture(autouse=True)
def _updates_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_graph, "GraphReplays", ReplaysOfState)


def make_graph(module: nn.Module, *args: Any, device: Device | None = None, **kwargs: Any) -> FullGraph:
    return FullGraph(module, GraphedCall.of(module, args, kwargs), device or FakeDevice())


def random_values() -> torch.Tensor:
    return torch.randn(4, 8)


@torch.no_grad()
def compare_calls(graph: nn.Module, model: nn.Module, calls: int = CALLS) -> None:
    """`model` is like the one in the graph, with tensors of its own."""
    for _ in range(calls):
        x = random_values()
        for answer, truth in zip(graph(x), model(x), strict=True):
            assert torch.equal(answer, truth)


def test_calls_are_replayed_and_buffers_updated_once() -> None:
    model = Block().eval()
    twin = copy.deepcopy(model)
    graph = make_graph(model, random_values())
    compare_calls(graph, twin)
    assert (graph.fast_calls, graph.fallbacks) == (REPLAYS, 0)
    assert graph.explain().startswith(f"replays of one CUDA graph: {REPLAYS}")


def test_other_calls_are_the_modules() -> None:
    model = Block().eval()
    graph = make_graph(model, random_values())
    compare_calls(graph, copy.deepcopy(model))
    reasons = []
    with torch.no_grad():
        for args in ((torch.randn(3, 8),), (random_values().double(),), (random_values(), 2.0)):
            try:
                graph(*args)
            except RuntimeError:  # as the module's own call of such an argument
                assert args[0].dtype is torch.float64
            reasons.append(graph.last_fallback)
    graph(random_values())
    reasons.append(graph.last_fallback)
    assert reasons[0] == reasons[1] == "a tensor is of another shape, dtype, device or class"
    assert "constant argument" in reasons[2]
    assert "needs gradients" in reasons[3]
    assert graph.fallbacks == 4


@pytest.mark.parametrize(
    ("effect", "reason"),
    [
        ("attribute", "a call sets calls"),
        ("list", "a call sets log"),
        ("argument", "it changes a tensor among its arguments"),
    ],
)
def test_calls_with_other_effects_are_never_replayed(effect: str, reason: str) -> None:
    model = Block(effect).eval()
    twin = copy.deepcopy(model)
    graph = make_graph(model, random_values())
    with torch.no_grad():
        for _ in range(CALLS):
            x = random_values()
            y = x.clone()
            assert torch.equal(graph(x)[0], twin(y)[0])
            assert torch.equal(x, y)
    assert (graph.fast_calls, graph.last_fallback) == (0, reason)
    assert (model.calls, model.log, model.total.tolist()) == (twin.calls, twin.log, twin.total.tolist())


def test_what_is_changed_between_calls_is_noticed() -> None:
    model = Block().eval()
    graph = make_graph(model, random_values())
    compare_calls(graph, copy.deepcopy(model))
    model.first.weight = nn.Parameter(torch.randn(8, 8))
    compare_calls(graph, copy.deepcopy(model))
    assert graph.fallbacks == 0
    model.second = nn.Linear(8, 8).eval()
    compare_calls(graph, copy.deepcopy(model), 1)
    assert graph.last_fallback == "a submodule of Block was replaced after the export"


def test_training_hooks_and_hidden_tensors_are_left_to_the_module() -> None:
    reasons = []
    for change in (
        lambda model: model.train(),
        lambda model: model.first.register_forward_hook(lambda *_: None),
        lambda model: setattr(model, "log", [torch.ones(1)]),
    ):
        model = Block().eval()
        change(model)
        graph = make_graph(model, random_values())
        compare_calls(graph, copy.deepcopy(model))
        assert graph.fast_calls == 0
        reasons.append(graph.last_fallback)
    assert reasons == [
        "a submodule is in training mode",
        "Linear has hooks, which a replay would not run",
        "log of Block holds tensors",
    ]


def test_copies_and_checkpoints_are_the_modules() -> None:
    model = Block().eval()
    graph = make_graph(model, random_values())
    compare_calls(graph, copy.deepcopy(model))
    twin = copy.deepcopy(graph)
    assert twin.fast_calls == 0
    assert list(graph.state_dict()) == list(model.state_dict())
    assert graph.effect == ""
    twin.load_state_dict(Block().state_dict())
    assert not torch.equal(twin.first.weight, model.first.weight)
    with pytest.raises(TaskError, match="without a tensor"):
        GraphedCall.of(model, (), {"scale": 2.0})


def test_it_can_be_pickled_and_compiled() -> None:
    model, x = Block().eval(), random_values()
    graph = make_graph(model, x)
    compare_calls(graph, copy.deepcopy(model))
    again = pickle.loads(pickle.dumps(graph))
    compiled = torch.compile(graph, backend="eager")
    with torch.no_grad():
        assert torch.equal(again.original(x)[0], model(x)[0])
        expected = copy.deepcopy(model)
        for answer, truth in zip(compiled(x), expected(x), strict=True):
            torch.testing.assert_close(answer, truth)


def make_replayed_layer(folder: Path) -> tuple[nn.Module, OptimizedModule, FakeDevice]:
    """A layer, what stands in its place, and the device that captures its own calls."""
    layer, inner = nn.Linear(8, 8).eval(), FakeDevice()
    exported = export_module(layer, (random_values(),), {}, folder).task.main.graph
    fast = OptimizedModule(layer, exported, [], None, "cpu", exported)
    fast._replays = GraphReplays(fast.run_kernels, frozenset(), inner)
    return layer, fast, inner


def test_layers_inside_launch_without_graphs_of_their_own(tmp_path: Path) -> None:
    layer, fast, inner = make_replayed_layer(tmp_path)
    model = nn.Sequential(fast, nn.ReLU()).eval()
    graph = make_graph(model, random_values())
    with torch.no_grad():
        for _ in range(CALLS):
            x = random_values()
            assert torch.equal(graph(x), layer(x).relu())
    assert (graph.fast_calls, inner.captures) == (REPLAYS, 0)


def test_what_cannot_be_captured_is_left_to_the_module_and_its_layers(tmp_path: Path) -> None:
    layer, fast, inner = make_replayed_layer(tmp_path)
    graph = make_graph(nn.Sequential(fast, nn.ReLU()).eval(), random_values(), device=FakeDevice(fault="no"))
    with torch.no_grad():
        for _ in range(2 * CALLS):
            x = random_values()
            assert torch.equal(graph(x), layer(x).relu())
    assert graph.last_fallback == "its capture failed: no"
    assert inner.captures == 1


def test_replays_with_stale_inputs_are_found() -> None:
    model, x = Block().eval(), random_values()
    call = WholeCall("block", "", (x,), {})
    assert find_difference(make_graph(model, x), call) == ""
    stale = make_graph(model, x, device=Late())
    assert find_difference(stale, call) == f"call {CALLS_BEFORE + 2} of the same kind has another answer"
    assert find_difference(make_graph(Block("attribute").eval(), x), call) == "a call sets calls"
    in_order = torch.arange(8.0)
    refusing = WholeCall("block", "", (in_order,), {})
    difference = find_difference(make_graph(Sorted().eval(), in_order), refusing)
    assert difference == "its results cannot be compared: x is not sorted"


def test_other_algorithms_are_told_from_other_answers() -> None:
    model, x, device = Block().eval(), random_values(), Otherwise()
    for device.part, difference in (
        (1e-6, ""),
        (1e-2, f"call {CALLS_BEFORE + 1} of the same kind has another answer"),
    ):
        assert (
            find_difference(make_graph(model, x, device=device), WholeCall("block", "", (x,), {}))
            == difference
        )


def make_llama(layers: int = 2) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=layers, num_attention_heads=2, num_key_value_heads=1, vocab_size=50
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    model.generation_config.eos_token_id = None
    return model


@torch.no_grad()
def generate(model: LlamaForCausalLM, tokens: torch.Tensor, count: int) -> torch.Tensor:
    options = {"do_sample": False, "cache_implementation": "static", "disable_compile": True}
    return model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=count, **options)


def replace_inner(model: LlamaForCausalLM, tokens: torch.Tensor, count: int, device: Device) -> FullGraph:
    """Put a graph in the place of the decoder, which `generate` calls through its head."""
    calls: list[Any] = []
    hook = model.model.register_forward_pre_hook(
        lambda module, args, kwargs: calls.append(copy_example(module, args, kwargs)), with_kwargs=True
    )
    generate(model, tokens, count)
    hook.remove()
    args, kwargs = calls[2]
    graph = FullGraph(model.model, GraphedCall.of(model.model, args, kwargs), device)
    assert find_difference(graph, WholeCall("decoder", "model", args, kwargs)) == ""
    graph.reset_counts()
    model.model = graph
    return graph


def test_a_model_that_generates_is_one_graph_a_token() -> None:
    model, tokens = make_llama(), torch.randint(0, 50, (1, 5))
    truth = generate(model, tokens, 16)
    graph = replace_inner(model, tokens, 16, FakeDevice())
    for _ in range(3):
        assert torch.equal(generate(model, tokens, 16), truth)
    assert graph.fast_calls > 3 * 10
    assert graph.fallbacks == 3  # the prompts


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_model_generates_by_one_graph_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_graph, "GraphReplays", GraphReplays)
    model, tokens = make_llama(4).to("cuda", torch.bfloat16), torch.randint(0, 50, (1, 5), device="cuda")
    truth = generate(model, tokens, 32)
    graph = replace_inner(model, tokens, 32, CudaDevice())
    for _ in range(3):
        assert torch.equal(generate(model, tokens, 32), truth)
    assert graph.fast_calls > 80
    model.lm_head.weight.data.neg_()
    model.model.layers[1].mlp.up_proj.weight.data.mul_(0.5)
    graphed = generate(model, tokens, 32)
    model.model = graph.original
    assert torch.equal(generate(model, tokens, 32), graphed)
