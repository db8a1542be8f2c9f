"""`optimize_model` as a whole: searches by promise, winners composed, the outcome told; and once with a real search and compiler."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_device import FakeDevice, ReplaysOfState
from torch import nn

import warpsmith
from warpsmith.composition import side_by_side
from warpsmith.composition.side_by_side import Blocks
from warpsmith.config import Config
from warpsmith.errors import Interrupted, TaskError, UsageError
from warpsmith.judge.device.device_lock import try_flock
from warpsmith.records import Best, Ratio, RunSummary
from warpsmith.runtime import full_graph, graph_replays
from warpsmith.runtime.full_graph import FullGraph
from warpsmith.runtime.module import OptimizedModule
from warpsmith.runtime.stand_in import StandIn
from warpsmith.tasks.memory import export_module
from warpsmith.whole_model import finishing, searching
from warpsmith.whole_model.searching import divide_time
from warpsmith.workload import recording
from warpsmith.workload.regions import CALL_S


class Gate(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.norm, self.scale = nn.LayerNorm(width), nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.tanh(self.norm(x) * self.scale) + torch.nn.functional.gelu(x), -1)


class Net(nn.Module):
    """Its own call depends on a value, so that its layers are the tasks."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Gate() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x) if float(x.sum()) == float(x.sum()) else x
        return x


X = torch.randn(512, 64, generator=torch.Generator().manual_seed(0))


def run(model: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model(X)


@pytest.fixture(name="config")
def _config(tmp_path: Path, with_peaks: Callable[..., Path]) -> Config:
    cache = with_peaks(tmp_path / "cache", 1)
    return Config(archive=tmp_path / "a.db", cache=cache, baselines=("eager",), confirm=1, threads=1)


def make_summary(status: str) -> RunSummary:
    ratio = Ratio(baseline="eager", median=2.0, low=1.9, high=2.1)
    best = Best(
        candidate_id="c", label="kernel", labels=("kernel",), speedup=ratio, speedup_eager=ratio, median_us=1.0, limit_share=0.5,
        confirmed=True,
    )  # fmt: skip
    return RunSummary(run_id="r", task="t", target="cpu", status=status, best=best)


@pytest.fixture(name="searched")
def _searched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Searches that win at once with the layer's own graph, and measurements by which every replaced layer saves a tenth."""
    names: list[str] = []

    def search(module: nn.Module, args: Any, kwargs: Any, **_: Any) -> OptimizedModule:
        names.append(type(module).__name__)
        task = export_module(module, args, kwargs, tmp_path)
        return OptimizedModule(module, task.task.graph, [], make_summary("win"), rewritten=task.task.graph)

    def measure(variants: Any, seconds: float, seed: int) -> Blocks:
        times: dict[str, list[list[float]]] = {}
        for name, make_ready in variants.items():
            ready = make_ready()
            (model,) = ready.args
            assert isinstance(ready(), torch.Tensor)
            times[name] = [[100.0 - 10 * sum(isinstance(m, OptimizedModule) for m in model.modules())]] * 6
        return Blocks(times)

    monkeypatch.setattr(searching, "optimize", search)
    monkeypatch.setattr(finishing, "measure_side_by_side", measure)
    return names


def test_winners_are_composed_and_told(
    config: Config, searched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = {"Net": 2.5, "Gate": 1.0, "LayerNorm": 0.1}  # of a call; a busy machine's clock is not asked
    monkeypatch.setattr(
        recording, "_estimate_s",
        lambda groups: sum(seconds[type(g.module).__name__] * len(g.times_s) for g in groups),
    )  # fmt: skip
    model = Net().eval()
    outcome = warpsmith.optimize_model(model, run, time=30, config=config, seed=0)
    assert searched == ["Gate"]
    assert [(layers.in_model, layers.paths) for layers in outcome.layers] == [
        (True, ("layers.0", "layers.1"))
    ]
    assert outcome.speedup is not None
    assert outcome.speedup.median == pytest.approx(100 / 80)
    assert outcome.parity is not None
    assert outcome.parity.ok
    assert outcome.predicted == pytest.approx(1 / (1 - 0.8 / 2))  # two calls of 1 s in 2.5 s, twice as fast
    assert [type(layer).__name__ for layer in outcome.model.layers] == ["OptimizedModule"] * 2
    assert [type(layer).__name__ for layer in model.layers] == ["Gate"] * 2
    assert {id(p) for p in outcome.model.parameters()} == {id(p) for p in model.parameters()}
    torch.testing.assert_close(run(outcome.model), run(model))
    assert "over the original" in str(outcome)
    assert "replaced: Gate (layers.0 and 1 equal)" in outcome.report()


def test_the_whole_is_measured_while_no_other_run_measures(
    config: Config, searched: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "device.lock"
    monkeypatch.setattr(finishing, "lock_file", lambda device: file)
    measure, held = finishing.measure_side_by_side, []

    def measure_under_lock(*args: Any) -> Blocks:
        with file.open() as opened:
            held.append(not try_flock(opened.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB))
        return measure(*args)

    monkeypatch.setattr(finishing, "measure_side_by_side", measure_under_lock)
    warpsmith.optimize_model(Net().eval(), run, time=30, config=config, seed=0)
    assert held
    assert all(held)
    with file.open() as opened:
        assert try_flock(opened.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)


def choose_by_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer is worth more than its parts by far, and none is too small: what the clock says on a busy machine, where a prompt may take nearly all
    of the time, does not choose between them.
    """
    monkeypatch.setattr(recording, "LARGEST_REGION", 20)
    monkeypatch.setattr(recording, "LEAST_SHARE", 0.0)
    monkeypatch.setattr(
        recording, "predict_saving_s", lambda seconds, _, operations, host_s: seconds * operations
    )


def make_generation() -> tuple[Any, Callable[[Any], torch.Tensor]]:
    """A Llama of three layers, and the run in which it generates with a cache of a fixed size."""
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2}
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(num_hidden_layers=3, vocab_size=64, pad_token_id=0, **sizes)
    ).eval()
    model.generation_config.eos_token_id = None  # which random weights may choose, and end the calls
    ids = torch.randint(1, 64, (1, 4), generator=torch.Generator().manual_seed(0))

    def generate(model: Any) -> torch.Tensor:
        options = {"cache_implementation": "static", "disable_compile": True, "do_sample": False}
        with torch.no_grad():
            return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, **options)

    return model, generate


def test_layers_with_a_cache_of_a_fixed_size_are_replaced(
    config: Config, searched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All layers are given one cache, of which each has its own part; the call that sets the cache up is the original's."""
    choose_by_operations(monkeypatch)
    model, generate = make_generation()
    fast = warpsmith.optimize_model(model, generate, time=30, config=config, seed=0)
    assert "LlamaDecoderLayer" in searched, fast.report()
    replaced = [m for m in fast.model.modules() if isinstance(m, OptimizedModule)]
    layers = [m for m in replaced if type(m.original).__name__ == "LlamaDecoderLayer"]
    assert len(layers) == 3, fast.report()
    calls = [(m.fast_calls, m.fallbacks) for m in layers]
    assert torch.equal(generate(fast.model), generate(model))
    new_calls = [(m.fast_calls - f, m.fallbacks - b) for m, (f, b) in zip(layers, calls, strict=True)]
    assert new_calls == [(23, 1)] * 3, layers[0].last_fallback


@pytest.fixture(name="captured")
def _captured(searched: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A device that captures, and measurements by which every stand-in saves a tenth."""

    def measure(variants: Any, seconds: float, seed: int) -> Blocks:
        times = {}
        for name, make_ready in variants.items():
            parts = sum(isinstance(m, StandIn) for m in make_ready().args[0].modules())
            times[name] = [[100.0 - 10 * parts]] * 6
        return Blocks(times)

    monkeypatch.setattr(finishing, "measure_side_by_side", measure)
    monkeypatch.setattr(recording, "WHOLE_SHARE", 0.0)
    monkeypatch.setattr(recording, "INNER_SHARE", 0.0)
    monkeypatch.setattr(recording, "GRAPHED", ("cpu",))
    monkeypatch.setattr(graph_replays, "CudaDevice", FakeDevice)
    monkeypatch.setattr(full_graph, "GraphReplays", ReplaysOfState)
    return searched


def test_a_model_without_tasks_may_be_one_graph(
    config: Config, captured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "predict_saving_s", lambda *_: 0.0)
    model = nn.Sequential(Gate(), Gate()).eval()
    outcome = warpsmith.optimize_model(model, run, time=30, config=config, seed=0)
    assert captured == []
    assert isinstance(outcome.model, FullGraph)
    assert "captured: Sequential" in outcome.report()
    torch.testing.assert_close(run(outcome.model), run(model))
    monkeypatch.setattr(recording, "GRAPHED", ())
    with pytest.raises(UsageError, match="no layer of Sequential can be optimized"):
        warpsmith.optimize_model(model, run, time=30, config=config, seed=0)


def test_a_model_that_is_one_part_is_no_graph_besides(
    config: Config, captured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_by_operations(monkeypatch)
    model = Gate().eval()
    outcome = warpsmith.optimize_model(model, run, time=30, config=config, seed=0)
    assert captured == ["Gate"]
    assert isinstance(outcome.model, OptimizedModule)
    assert "CUDA graph" not in outcome.report()


def test_most_of_a_model_that_generates_becomes_one_graph(
    config: Config, captured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_by_operations(monkeypatch)
    model, generate = make_generation()
    outcome = warpsmith.optimize_model(model, generate, time=30, config=config, seed=0)
    assert "captured: LlamaModel (model) as one CUDA graph" in outcome.report()
    assert isinstance(outcome.model.model, FullGraph)
    before = outcome.model.model.fast_calls
    assert torch.equal(generate(outcome.model), generate(model))
    assert outcome.model.model.fast_calls >= before + 22


def test_compiled_model_gives_a_copy_of_its_layers(config: Config, searched: list[str]) -> None:
    model = Net().eval()
    outcome = warpsmith.optimize_model(
        torch.compile(model, backend="eager"), run, time=30, config=config, seed=0
    )
    assert isinstance(outcome.model, Net)
    assert outcome.layers[0].in_model
    assert any("compiled" in note for note in outcome.recording.notes)


def test_interrupt_keeps_what_is_done(
    config: Config, searched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Two(Net):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Gate(), nn.Softmax(-1)])

    search = searching.optimize

    def interrupted(module: nn.Module, *args: Any, **kwargs: Any) -> OptimizedModule:
        if searched:
            raise Interrupted("interrupted: the archive holds 1 result of this run")
        return search(module, *args, **kwargs)

    monkeypatch.setattr(searching, "optimize", interrupted)
    monkeypatch.setattr(searching, "LEAST_SEARCH_S", 0.0)
    monkeypatch.setitem(
        CALL_S, "cpu", 0.0
    )  # a softmax takes hardly longer than a call of an optimized module
    outcome = warpsmith.optimize_model(Two().eval(), run, time=30, config=config, seed=0)
    assert [layers.in_model for layers in outcome.layers] == [True, False]
    assert outcome.layers[1].reason == "interrupted"
    assert outcome.speedup is not None


def test_interrupt_while_the_whole_is_measured_leaves_in_one_line(
    config: Config, searched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> Blocks:
        raise KeyboardInterrupt

    monkeypatch.setattr(finishing, "measure_side_by_side", interrupt)
    with pytest.raises(Interrupted, match="the archive holds 1 winner"):
        warpsmith.optimize_model(Net().eval(), run, time=30, config=config, seed=0)


def test_region_that_cannot_be_searched_is_left_with_its_reason(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> OptimizedModule:
        raise TaskError("no kernel covers it")

    monkeypatch.setattr(searching, "optimize", fail)
    model = Net().eval()
    outcome = warpsmith.optimize_model(model, run, time=30, config=config, seed=0)
    assert outcome.model is model
    assert outcome.speedup is None
    assert {layers.reason for layers in outcome.layers} == {"no kernel covers it"}
    assert [layers.name.split()[0] for layers in outcome.layers] == ["Gate", "LayerNorm"]  # then its part
    assert "the original runs" in outcome.report()


def test_parts_of_a_layer_that_wins_nothing_are_searched(
    config: Config, searched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    search = searching.optimize

    def quarantine(module: nn.Module, *args: Any, **kwargs: Any) -> OptimizedModule:
        fast = search(module, *args, **kwargs)
        if not isinstance(module, Gate):
            return fast
        update = {"reason": "quarantined", "seconds_by_stage": {"proposing": 0.0}}
        return OptimizedModule(
            module, fast.graph, [], make_summary("no-win").model_copy(update=update), rewritten=fast.graph
        )

    monkeypatch.setattr(searching, "optimize", quarantine)
    outcome = warpsmith.optimize_model(Net().eval(), run, time=30, config=config, seed=0)
    assert searched == ["Gate", "LayerNorm"]
    assert [(layers.in_model, layers.paths, layers.reason) for layers in outcome.layers] == [
        (True, ("layers.0.norm", "layers.1.norm"), ""), (False, (), "quarantined")
    ]  # fmt: skip


def test_wrong_winner_is_pruned(config: Config, searched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    search = searching.optimize

    def wrong(module: nn.Module, *args: Any, **kwargs: Any) -> OptimizedModule:
        fast = search(module, *args, **kwargs)
        graph = fast._graphs[1]
        nodes = [
            n.model_copy(update={"op": "aten.sigmoid.default"}) if n.op == "aten.tanh.default" else n
            for n in graph.nodes
        ]
        graph = graph.model_copy(update={"nodes": tuple(nodes)})
        return OptimizedModule(module, fast._graphs[0], [], fast.summary, rewritten=graph)

    monkeypatch.setattr(searching, "optimize", wrong)
    model = Net().eval()
    outcome = warpsmith.optimize_model(model, run, time=30, config=config, seed=0)
    assert outcome.model is model
    assert "misses its budget" in outcome.layers[0].reason


def test_what_cannot_be_optimized_is_refused_before_any_search(config: Config) -> None:
    model = Net().eval()

    def train(module: nn.Module) -> None:
        with torch.no_grad():
            module.layers[0].scale += module(X).mean()

    with pytest.raises(UsageError, match="changes the model's parameters"):
        warpsmith.optimize_model(model, train, config=config)
    with pytest.raises(UsageError, match=r"no layer of Net .*torch\.no_grad"):
        warpsmith.optimize_model(model, lambda m: m(X), config=config)
    with pytest.raises(UsageError, match="never called"):
        warpsmith.optimize_model(model, lambda m: X, config=config)
    with pytest.raises(UsageError, match="no time to search"):
        warpsmith.optimize_model(model, run, time="soon", config=config)
    with pytest.raises(UsageError, match=r"function run\(model\)"):
        warpsmith.optimize_model(model, X, config=config)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        warpsmith.optimize_model(model, lambda m: 1 / 0, config=config)


def test_time_is_divided_by_promise() -> None:
    assert divide_time(100, [3.0, 1.0]) == [75, 25]
    assert divide_time(30, [3.0, 1.0]) == [30]
    assert divide_time(5, [1.0]) == [5]
    assert sum(divide_time(600, [5.0, 3.0, 1.0, 0.001])) == pytest.approx(600)


def test_search_with_a_compiler_gives_a_model_that_answers_alike(
    config: Config, few_rounds: Callable[[], AbstractContextManager[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it wins depends on how busy the machine is; every region is told of, and the model answers in any case."""
    monkeypatch.setattr(side_by_side, "ROUNDS", (4, 4))
    model = Net().eval()
    with few_rounds():
        outcome = warpsmith.optimize_model(model, run, time=4, config=config, seed=0)
    torch.testing.assert_close(run(outcome.model), run(model), rtol=1e-5, atol=1e-6)
    (layers,) = outcome.layers
    assert layers.in_model or layers.reason
    replaced = [m for m in outcome.model.modules() if isinstance(m, OptimizedModule)]
    assert len(replaced) == (2 if layers.in_model else 0)
    assert all(m.fast_calls for m in replaced)
    assert (outcome.speedup is not None) == layers.in_model
