"""A composed model: equal layers take one layer's kernels with weights of their own, and parts are switched on and off."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from fake_device import FakeDevice, ReplaysOfState
from torch import nn

from warpsmith.composition.compose import Composition, Part, compose, copy_model, list_equal_layers
from warpsmith.composition.whole_call import WholeCall, calls_stand_in
from warpsmith.errors import UsageError
from warpsmith.records import Graph
from warpsmith.runtime import full_graph, graph_replays
from warpsmith.runtime.full_graph import FullGraph
from warpsmith.runtime.module import OptimizedModule
from warpsmith.tasks.memory import export_module


class Layer(nn.Module):
    def __init__(self, number: int, scaled: bool = False) -> None:
        super().__init__()
        self.layer_idx, self.kind_name, self.scaled = number, "full", scaled
        self.linear = nn.Linear(8, 8)
        self.register_buffer("shift", torch.randn(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.linear(x)) + self.shift
        return y / (self.layer_idx + 1) if self.scaled else y


class Net(nn.Module):
    def __init__(self, scaled: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(n, scaled) for n in range(3))
        self.tied = self.layers[0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            assert layer.kind_name == "full"
            x = layer(x)
        return self.tied(x)

    def forward_twice(self, x: torch.Tensor) -> torch.Tensor:
        return self(self(x))


def graph_of(layer: nn.Module, folder: Path) -> Graph:
    return export_module(layer, (torch.randn(4, 8),), {}, folder).task.graph


def as_winner(layer: nn.Module, folder: Path) -> OptimizedModule:
    """The layer's own graph in ATen stands for kernels."""
    graph = graph_of(layer, folder)
    return OptimizedModule(layer, graph, [], rewritten=graph)


@pytest.fixture(name="model")
def _model() -> Net:
    return Net().eval()


@pytest.fixture(name="composition")
def _composition(model: Net, tmp_path: Path) -> Composition:
    winner = as_winner(model.layers[0], tmp_path)
    return compose(model, [Part("layers", winner, ("layers.0", "layers.1", "layers.2"), 0.5)])


def test_equal_layers_answer_with_weights_of_their_own(model: Net, composition: Composition) -> None:
    x = torch.randn(4, 8)
    composition.use(["layers"])
    with torch.no_grad():
        torch.testing.assert_close(composition.model(x), model(x))
    counts = [slot.optimized.fast_calls for slot in composition.slots["layers"]]
    assert counts == [2, 1, 1]  # the first is tied: it runs at the end again
    assert composition.describe_idle("layers") == ""
    assert composition.model.layers[1].original.linear.weight is model.layers[1].linear.weight
    assert composition.model.layers[1].original.shift is not model.layers[1].shift
    assert isinstance(model.layers[0], Layer)


def test_parts_that_are_not_used_are_out(model: Net, composition: Composition) -> None:
    composition.use(["layers"])
    composition.use([])
    composition.reset_counts()
    with torch.no_grad():
        composition.model(torch.randn(4, 8))
    assert isinstance(composition.model.tied, Layer)
    assert composition.describe_idle("layers") == "the model never calls it"
    composition.use(["layers"])
    composition.model(torch.randn(4, 8))
    assert "gradients" in composition.describe_idle("layers")


def test_model_itself_can_be_replaced(model: Net, tmp_path: Path) -> None:
    composition = compose(model, [Part("all", as_winner(model, tmp_path), ("",), 0.5)])
    composition.use(["all"])
    assert isinstance(composition.model, OptimizedModule)
    composition.use([])
    assert isinstance(composition.model, Net)


def test_the_whole_has_a_graph_for_each_set_of_parts(
    model: Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_replays, "CudaDevice", FakeDevice)
    monkeypatch.setattr(full_graph, "GraphReplays", ReplaysOfState)
    layers = Part("layers", as_winner(model.layers[0], tmp_path), ("layers.0", "layers.1", "layers.2"), 0.5)
    whole = WholeCall("whole", "", (torch.randn(4, 8),), {})
    composition = compose(model, [layers], whole)
    graphs = []
    for names in (["whole"], ["layers", "whole"], ["layers"], [], ["whole", "layers"]):
        composition.use(names)
        composition.reset_counts()
        assert composition.find_wrong_replays() == ""
        assert isinstance(composition.model, FullGraph) == ("whole" in names)
        with torch.no_grad():
            for _ in range(2):
                x = torch.randn(4, 8)
                torch.testing.assert_close(composition.model(x), model(x))
        if "whole" in names:
            graphs.append(composition.model)
            assert composition.model.fast_calls == 2
            assert composition.describe_idle("whole") == ""
        if "layers" in names:  # replays of what was captured while they were compared call no layer
            assert composition.describe_idle("layers") == ""
    assert graphs[1] is graphs[2]
    assert graphs[0] is not graphs[1]


def test_methods_of_a_model_call_no_stand_in(model: Net) -> None:
    x = torch.randn(4, 8)
    assert calls_stand_in(lambda called: called(x), model)
    assert not calls_stand_in(lambda called: called.forward_twice(x), model)

    def ask_for_class(called: nn.Module) -> torch.Tensor:
        if not isinstance(called, Net):
            raise TypeError("no Net")
        return called(x)

    assert not calls_stand_in(ask_for_class, model)


def test_kernels_keep_the_modes_of_the_run(model: Net, tmp_path: Path) -> None:
    model.train()
    winner = as_winner(model.layers[0], tmp_path)
    model.eval()
    composition = compose(model, [Part("layers", winner, ("layers.0",), 0.5)])
    composition.use(["layers"])
    assert not any(m.training for m in composition.slots["layers"][0].original.modules())
    composition.model.train()
    with torch.no_grad():
        composition.model(torch.randn(4, 8))
    assert composition.slots["layers"][0].optimized.fast_calls == 2


def test_layers_that_only_look_alike_are_told_apart(tmp_path: Path) -> None:
    for scaled, expected in ((False, ["layers.1", "layers.2"]), (True, [])):
        net = Net(scaled).eval()
        graph = graph_of(net.layers[0], tmp_path)
        equal, others = list_equal_layers(
            graph, ["layers.1", "layers.2"], lambda path, net=net: graph_of(net.get_submodule(path), tmp_path)
        )
        assert list(equal) == expected
        assert sorted([*equal, *others]) == ["layers.1", "layers.2"]


def test_model_that_cannot_be_copied_is_refused_in_one_line() -> None:
    model = nn.Linear(1, 1)
    model.stream = (n for n in range(3))
    with pytest.raises(UsageError, match=r"cannot be copied .*generator"):
        copy_model(model)
