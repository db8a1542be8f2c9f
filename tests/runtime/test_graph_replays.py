"""Calls by replays of a CUDA graph answer as launches one by one do: on a device of the test's own, and on a GPU."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_device import FakeDevice, Recorded, ReplaysOfState
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from warpsmith.errors import TaskError
from warpsmith.records import Graph
from warpsmith.runtime import graph_replays
from warpsmith.runtime.graph_replays import (
    CALLS_BEFORE,
    MOST_COPIED_BYTES,
    MOST_KEPT,
    MOST_SHORT,
    SHORT_REPLAYS,
    CudaDevice,
    Device,
    GraphReplays,
    Leaves,
    Replay,
    list_updated,
)
from warpsmith.runtime.module import OptimizedModule
from warpsmith.tasks.export import export_used
from warpsmith.tasks.memory import export_module

CALLS = CALLS_BEFORE + 4


def multiply(inputs: Sequence[Tensor]) -> Leaves:
    x, weight = inputs
    return x * weight, "constant"


def append(inputs: Sequence[Tensor]) -> Leaves:
    x, cache = inputs
    cache.add_(x)
    return (cache.sum(),)


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


def random_values() -> Tensor:
    return torch.randn(3, 4)


def test_answers_are_those_of_launches_and_results_stay(device: FakeDevice) -> None:
    weight, answers = random_values(), []
    run = GraphReplays(multiply, frozenset(), device)
    for _ in range(CALLS):
        x = random_values()
        answers.append((x, run([x, weight])))
    for x, (product, constant) in answers:
        assert torch.equal(product, x * weight)
        assert constant == "constant"
    assert (device.captures, run.replays, run.reason) == (1, CALLS - CALLS_BEFORE - 1, "")


@pytest.mark.parametrize("first", [True, False])
def test_calls_in_inference_mode_and_others_may_follow_one_another(device: FakeDevice, first: bool) -> None:
    run, weight = GraphReplays(multiply, frozenset(), device), random_values()
    for inference in (first, not first, first):
        with torch.inference_mode(inference):
            for _ in range(CALLS):
                x = random_values()
                assert torch.equal(run([x, weight])[0], x * weight)
    assert (device.captures, run.reason) == (1, "")


def test_what_a_call_updates_where_it_is_is_updated_once(device: FakeDevice) -> None:
    cache, expected = random_values(), torch.zeros(3, 4)
    device.state = [cache]
    run = GraphReplays(append, frozenset({1}), device)
    expected += cache
    for _ in range(CALLS):
        x = random_values()
        expected += x
        (total,) = run([x, cache])
        assert torch.equal(cache, expected)
        assert torch.equal(total, expected.sum())
    assert run.replays > 0


def test_an_updated_input_that_moves_is_updated_by_launches(device: FakeDevice) -> None:
    run = GraphReplays(append, frozenset({1}), device)
    caches = [random_values() for _ in range(CALLS)]
    for cache in caches:
        x, before = random_values(), cache.clone()
        run([x, cache])
        assert torch.equal(cache, before + x)
    assert device.captures == 0
    assert "updates" in run.reason


def test_what_the_caller_gives_up_is_not_kept_alive() -> None:
    class Forgetful(FakeDevice):
        """Keeps addresses alone, as a graph does."""

        def capture(self, function: Callable[[], Leaves]) -> tuple[Replay, Leaves]:
            leaves = function()
            return Recorded(lambda: leaves, leaves), leaves

    run, weight = GraphReplays(multiply, frozenset(), Forgetful()), random_values()
    for _ in range(CALLS):
        run([random_values(), weight])
    assert run.replays > 0
    alive = weakref.ref(weight)
    del weight
    assert alive() is None


def test_a_cache_that_is_replaced_once_is_updated_where_it_is(device: FakeDevice) -> None:
    caches = [random_values() for _ in range(2)]
    device.state = caches
    run = GraphReplays(append, frozenset({1}), device)
    for cache in caches:
        expected = cache.clone()
        for _ in range(CALLS):
            x = random_values()
            run([x, cache])
            expected += x
            assert torch.equal(cache, expected)
    assert (device.captures, run.reason) == (2, "")


def test_caches_that_each_serve_many_calls_are_captured_for_ever(device: FakeDevice) -> None:
    caches = [random_values() for _ in range(MOST_SHORT + 2)]
    device.state = caches
    run = GraphReplays(append, frozenset({1}), device)
    for cache in caches:
        for _ in range(CALLS_BEFORE + SHORT_REPLAYS + 1):
            run([random_values(), cache])
    assert (device.captures, run.reason) == (len(caches), "")


def test_a_model_that_generates_replays_its_layers() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, vocab_size=50
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    model.generation_config.eos_token_id = None
    tokens = torch.randint(0, 50, (1, 5))

    @torch.no_grad()
    def generate() -> torch.Tensor:
        return model.generate(
            tokens, max_new_tokens=16, do_sample=False, cache_implementation="static", disable_compile=True
        )

    truth, replays = generate(), []
    for number, layer in enumerate(model.model.layers):
        calls: list[Any] = []
        hook = layer.register_forward_pre_hook(
            lambda _, args, kwargs, calls=calls: calls.append((args, kwargs)), with_kwargs=True
        )
        generate()
        hook.remove()
        exported, graph = export_used(layer, *calls[2], __file__)
        fast = OptimizedModule(layer, graph, [], None, "cpu", graph, exported.names)
        fast._replays = ReplaysOfState(fast.run_kernels, list_updated(graph), FakeDevice())
        replays.append(fast._replays)
        model.model.layers[number] = fast
    for _ in range(2):
        assert torch.equal(generate(), truth)
    assert all(run.replays > 20 and not run.reason for run in replays)


def test_it_can_be_switched_off_and_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = torch.nn.Linear(8, 8).eval(), torch.randn(4, 8)
    graph = export_module(layer, (x,), {}, tmp_path).task.main.graph
    fast = OptimizedModule(layer, graph, [], None, "cpu", graph)
    with pytest.raises(TaskError, match="there are no kernels on a GPU to capture"):
        fast.cuda_graph = True
    assert not fast.cuda_graph
    monkeypatch.setattr(graph_replays, "CudaDevice", FakeDevice)
    fast.device_type = "cuda"
    fast.cuda_graph = True
    with torch.no_grad():
        for _ in range(CALLS):
            assert torch.equal(fast(x), layer(x))
        assert f"replays of a CUDA graph: {CALLS - CALLS_BEFORE - 1}" in fast.explain()
        fast.cuda_graph = False
        assert torch.equal(fast(x), layer(x))
    assert not fast.cuda_graph
    assert "CUDA graph" not in fast.explain()


def test_a_replaced_weight_is_read_and_often_replaced_ones_end_it(device: FakeDevice) -> None:
    run = GraphReplays(multiply, frozenset(), device)
    weights = [random_values() for _ in range(4)]
    for weight in weights:
        for _ in range(CALLS):
            x = random_values()
            assert torch.equal(run([x, weight])[0], x * weight)
    # The first graph takes the first weight where it is; the second one copies what moves.
    assert device.captures == 2
    assert run.reason == ""


def test_large_weights_that_are_replaced_are_read_where_they_are(device: FakeDevice) -> None:
    run = GraphReplays(lambda inputs: (inputs[0] * inputs[1].sum(),), frozenset(), device)
    weights = [torch.randn(MOST_COPIED_BYTES // 4 + 1) for _ in range(2)]
    for weight in weights:
        for _ in range(CALLS):
            x = torch.randn(1)
            assert torch.equal(run([x, weight])[0], x * weight.sum())
    later = CALLS - 1  # the first is captured
    assert (device.captures, run.reason, run.replays) == (2, "", CALLS - CALLS_BEFORE - 1 + later)


def test_other_strides_at_the_same_address_are_another_graph(device: FakeDevice) -> None:
    memory = torch.randn(16)
    run = GraphReplays(multiply, frozenset(), device)
    for strides in ((4, 1), (1, 4)) * 3:
        weight = memory.as_strided((4, 4), strides)
        for _ in range(CALLS):
            x = torch.randn(4, 4)
            assert torch.equal(run([x, weight])[0], x * weight)
    assert (device.captures, run.reason) == (2, "")


def test_a_cache_where_an_earlier_one_lay_finds_its_graph_again(device: FakeDevice) -> None:
    caches = [torch.zeros(4) for _ in range(MOST_KEPT)]
    totals = [cache.clone() for cache in caches]
    run = ReplaysOfState(append, frozenset({1}), device)
    for cache, total in [*zip(caches, totals, strict=True)] * 3:
        for _ in range(SHORT_REPLAYS + CALLS):
            x = torch.randn(4)
            total += x
            assert torch.equal(run([x, cache])[0], total.sum())
    assert (device.captures, run.reason) == (MOST_KEPT, "")


def test_caches_that_come_and_go_end_it(device: FakeDevice) -> None:
    caches = [torch.zeros(4) for _ in range(MOST_KEPT + 1)]
    totals = [cache.clone() for cache in caches]
    run = ReplaysOfState(append, frozenset({1}), device)
    for number, (cache, total) in enumerate([*zip(caches, totals, strict=True)] * MOST_SHORT):
        for _ in range(2 if number else CALLS):
            x = torch.randn(4)
            total += x
            assert torch.equal(run([x, cache])[0], total.sum())
    assert device.captures == MOST_SHORT
    assert "did not last" in run.reason


def test_large_inputs_that_move_are_not_copied(device: FakeDevice) -> None:
    run = GraphReplays(multiply, frozenset(), device)
    kept = [torch.ones(MOST_COPIED_BYTES // 4 + 1) for _ in range(CALLS)]
    for x in kept:
        run([x, torch.ones(1)])
    assert device.captures == 0
    assert "MB of inputs" in run.reason


@pytest.mark.parametrize(
    "function",
    [lambda inputs: (inputs[1][0],), lambda inputs: ((inputs[0] * 2)[:, :1].expand(3, 4),)],
    ids=["of an input", "expanded"],
)
def test_results_that_a_copy_is_not_are_launched(
    device: FakeDevice, function: Callable[[Sequence[Tensor]], Leaves]
) -> None:
    run, weight = GraphReplays(function, frozenset(), device), random_values()
    for _ in range(CALLS):
        x = random_values()
        (result,), (expected,) = run([x, weight]), function([x, weight])
        assert torch.equal(result, expected)
        assert result.stride() == expected.stride()
    assert "shares memory" in run.reason


def test_where_nothing_can_be_captured_calls_are_launched(device: FakeDevice) -> None:
    device.fault = "operation not permitted when stream is capturing\nCUDA kernel errors might be"
    run, weight = GraphReplays(multiply, frozenset(), device), random_values()
    for _ in range(CALLS):
        x = random_values()
        assert torch.equal(run([x, weight])[0], x * weight)
    assert run.reason == "its capture failed: operation not permitted when stream is capturing"
    assert run.describe() == f"none: {run.reason}"


def test_a_caller_who_captures_gets_launches_and_another_stream_its_own_graph(device: FakeDevice) -> None:
    run, weight = GraphReplays(multiply, frozenset(), device), random_values()
    device.capturing = True
    for _ in range(CALLS):
        run([random_values(), weight])
    assert device.captures == 0
    device.capturing = False
    for device.current in (1, 2):
        for _ in range(CALLS):
            x = random_values()
            assert torch.equal(run([x, weight])[0], x * weight)
    assert device.captures == 2


def exported(folder: Any) -> Graph:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total += x.sum(0)
            return torch.relu(x.view(2, 2, 8)) + 1

    return export_module(Layer(), (torch.randn(4, 8),), {}, folder).task.main.graph


def test_updated_inputs_are_read_off_the_graph(tmp_path: Any) -> None:
    graph = exported(tmp_path)
    assert [graph.inputs[i].target for i in list_updated(graph)] == ["total"]


def test_large_results_are_not_copied(device: FakeDevice) -> None:
    run = GraphReplays(
        lambda inputs: (inputs[0].expand(MOST_COPIED_BYTES // 4 + 1) * 2,), frozenset(), device
    )
    x = torch.randn(1)
    for _ in range(CALLS):
        assert run([x])[0][0] == x * 2
    assert (device.captures, run.replays) == (0, 0)
    assert (
        run.describe()
        == f"none: its results take {(MOST_COPIED_BYTES + 4) / 1e6:.0f} MB, which a replay copies"
    )


def test_what_is_launched_while_the_device_runs_is_not_captured(device: FakeDevice) -> None:
    weight = random_values()
    quick, slow = (
        GraphReplays(multiply, frozenset(), device, device_us=device_us) for device_us in (1e9, 1e-9)
    )
    for _ in range(CALLS):
        x = random_values()
        assert torch.equal(quick([x, weight])[0], x * weight)
        assert torch.equal(slow([x, weight])[0], x * weight)
    assert (quick.replays, slow.replays) == (0, CALLS - CALLS_BEFORE - 1)
    assert quick.describe().startswith("none: a launch takes ")
    assert "and a call runs for 1000000000 µs" in quick.reason


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_replays_on_a_gpu() -> None:
    device: Device = CudaDevice()
    weight, cache = (torch.randn(64, 64, device="cuda") for _ in range(2))

    def step(inputs: Sequence[Tensor]) -> Leaves:
        x, weight, cache = inputs
        cache.add_(x)
        return (torch.relu(x @ weight), cache.sum())

    runs = [GraphReplays(step, frozenset({2}), device) for _ in range(2)]  # they share memory
    expected = cache.clone()
    kept = []
    for _ in range(CALLS):
        for run in runs:
            x = torch.randn(64, 64, device="cuda")
            expected.add_(x)
            kept.append((run([x, weight, cache]), torch.relu(x @ weight), expected.sum()))
    for (product, total), expected_product, expected_total in kept:
        assert torch.equal(product, expected_product)
        assert torch.equal(total, expected_total)
    assert all(run.replays > 0 and not run.reason for run in runs)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_capture_leaves_cached_memory_to_those_who_use_it_next() -> None:
    """To give it back and ask for it again takes longer than a layer."""
    x = torch.randn(64, 64, device="cuda")
    cached = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    del cached
    before = torch.cuda.memory_reserved()
    run = GraphReplays(lambda inputs: (inputs[0] + 1,), frozenset(), CudaDevice())
    results = [run([x])[0] for _ in range(CALLS)]
    assert run.replays > 0
    assert all(torch.equal(result, x + 1) for result in results)
    assert torch.cuda.memory_reserved() >= before


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_capture_that_fails_leaves_the_device_as_it_was() -> None:
    def step(inputs: Sequence[Tensor]) -> Leaves:
        return (inputs[0] * float(inputs[0].sum()),)  # the host waits for a value

    x = torch.randn(8, device="cuda")
    run = GraphReplays(step, frozenset(), CudaDevice())
    assert all(torch.allclose(run([x])[0], x * x.sum()) for _ in range(CALLS))
    assert run.reason.startswith("its capture failed")
    again = GraphReplays(lambda inputs: (inputs[0] + 1,), frozenset(), CudaDevice())
    assert all(torch.equal(again([x])[0], x + 1) for _ in range(CALLS))
    assert again.replays > 0
