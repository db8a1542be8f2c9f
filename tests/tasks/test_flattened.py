"""Modules behind flat tensors: arguments and results of any class, and what a call changes besides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from warpsmith.errors import TaskError
from warpsmith.tasks.export import export_program, program_graph
from warpsmith.tasks.flattened import name_inputs
from warpsmith.tasks.memory import export_module


class Cache:
    """Grows by rebinding, as a DynamicCache does."""

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows, self.seen = rows, len(rows)

    def update(self, new: torch.Tensor) -> torch.Tensor:
        self.rows = torch.cat([self.rows, new])
        self.seen += len(new)
        return self.rows


class Attends(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, *, cache: Cache | None = None, scale: float = 1.0) -> dict[str, Any]:
        rows = self.project(x) * scale
        return {"sum": cache.update(rows).sum(0) if cache is not None else rows, "cache": cache}


def graph_of(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    return program_graph(export_program(module, args, kwargs, __file__), __file__)


def test_inputs_are_named_after_the_arguments_they_lie_in() -> None:
    graph = graph_of(Attends(), torch.randn(2, 4), cache=Cache(torch.randn(3, 4)))
    assert [i.target for i in graph.inputs if i.role == "input"] == ["x", "cache_rows"]
    assert [i.target for i in graph.inputs if i.role == "param"] == ["project.weight", "project.bias"]
    assert name_inputs([("a", "0"), ("a_0",), ("class",), ("2",), ()]) == [
        "a_0",
        "a_0_1",
        "x_class",
        "x_2",
        "x_",
    ]


def test_an_object_that_a_call_changes_is_an_update() -> None:
    tree = json.loads(graph_of(Attends(), torch.randn(2, 4), cache=Cache(torch.randn(3, 4))).tree)
    assert tree["result"] == {"dict": {"sum": 0, "cache": {"ref": 0}}}
    ((number, contents),) = tree["updates"]
    assert number == 0
    assert contents["object"]["state"] == {"dict": {"rows": 1, "seen": {"const": 5}}}


def test_a_call_that_changes_nothing_has_a_plain_tree() -> None:
    assert json.loads(graph_of(Attends(), torch.randn(2, 4)).tree) == {
        "dict": {"sum": 0, "cache": {"const": None}}
    }


def test_nodes_know_the_module_that_runs_them() -> None:
    graph = graph_of(nn.Sequential(Attends(), nn.Identity())[0], torch.randn(2, 4), scale=2.0)
    assert {n.op.split(".")[1]: n.module for n in graph.nodes} == {"linear": "project", "mul": ""}


class Remembers(nn.Module):
    """Reads and sets a plain tensor."""

    def __init__(self, state: torch.Tensor | None) -> None:
        super().__init__()
        self.state = state

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = torch.zeros_like(x) if self.state is None else self.state
        self.state = before * 0.5 + x
        return self.state * 2


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls, self.log = 0, []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * 2


class Logs(Counts):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.log.append(x.sum())
        return x * 2


def test_a_tensor_that_forward_sets_is_a_result(tmp_path: Path) -> None:
    module = Remembers(torch.ones(3))
    state = module.state
    exported = export_module(module, (torch.randn(3),), {}, tmp_path)
    tree = json.loads(exported.task.graph.tree)
    ((path, name, _, after),) = tree["attributes"]
    assert (path, name) == ("", "state")
    assert isinstance(after, int)
    assert module.state is state
    assert "state" in [i.target for i in exported.task.graph.inputs]


def test_an_attribute_that_a_first_call_makes_is_exported_as_later_calls_find_it(tmp_path: Path) -> None:
    module = Remembers(None)
    exported = export_module(module, (torch.randn(3),), {}, tmp_path)
    assert module.state is None
    assert "state" in [i.target for i in exported.task.graph.inputs]


@pytest.mark.parametrize(("module", "name"), [(Counts(), "calls"), (Logs(), "log")])
def test_an_attribute_that_differs_after_each_call_is_refused_by_name(
    module: Counts, name: str, tmp_path: Path
) -> None:
    with pytest.raises(TaskError, match=f"forward changes {name}"):
        export_module(module, (torch.randn(3),), {}, tmp_path)
    assert (module.calls, module.log) == (0, [])


def test_scripted_modules_are_refused_by_name() -> None:
    class Holds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(torch.jit.script(nn.Linear(2, 2)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    with pytest.raises(TaskError, match=r"inner\.0 is scripted"):
        graph_of(Holds(), torch.randn(1, 2))


def test_a_result_that_cannot_be_rebuilt_is_refused_by_name() -> None:
    class Yields(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x * 2, (i for i in range(3))

    with pytest.raises(TaskError, match="returns or keeps a generator"):
        graph_of(Yields(), torch.randn(2))


class Blocks(nn.Module):
    """What users' modules do around their operations."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.tied = nn.LSTM(8, 8), nn.Linear(8, 8)
        self.compiled = torch.compile(nn.Linear(8, 8))
        self.again = nn.Linear(8, 8)
        self.again.weight = self.tied.weight
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: torch.Tensor) -> Any:
        from torch.utils.checkpoint import checkpoint

        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.tied(x)
        y = checkpoint(self.again, y.float(), use_reentrant=False)
        with torch.enable_grad():
            z = self.compiled(y)
        return self.norm(z), self.rnn(z[:, None])[1]


def test_autocast_checkpoints_compiled_parts_recurrence_ties_and_batch_statistics_are_captured(
    tmp_path: Path,
) -> None:
    module = Blocks().train()
    graph = export_module(module, (torch.randn(16, 8),), {}, tmp_path).task.graph
    ops = {n.op.split(".")[1] for n in graph.nodes}
    assert {"linear", "lstm", "_to_copy"} <= ops
    assert sum(i.target == "tied.weight" or i.target == "again.weight" for i in graph.inputs) == 1
    assert {o.target for o in graph.outputs if o.role == "buffer_update"} >= {"norm.running_mean"}
