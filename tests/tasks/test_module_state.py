"""Exporting a module leaves it as it was: attributes, and the hooks that a first call installs."""

from __future__ import annotations

from pathlib import Path

import torch

from warpsmith.tasks.memory import task_from_module


class Capturing(torch.nn.Module):
    """Installs a hook at the first call and notes that, as transformers does; returns what the hook saw."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.seen: list[torch.Tensor] | None = None

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if not getattr(self, "installed", False):
            self.layer.register_forward_hook(self._capture)
            self.installed = True
        self.seen = seen = []
        result = self.layer(x)
        self.seen = None
        return (result, *seen)

    def _capture(self, module: torch.nn.Module, args: object, output: torch.Tensor) -> None:
        if self.seen is not None:
            self.seen.append(output * 2)


class Growing(torch.nn.Module):
    """Begins with a literal of no elements, as a cache does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.tensor([]), x.transpose(-1, -2)], dim=-1)


def test_export_takes_hooks_back_together_with_the_note_of_them(tmp_path: Path) -> None:
    module, x = Capturing().eval(), torch.randn(2, 4)
    task = task_from_module(module, (x,), {}, tmp_path)
    assert sum(o.role == "output" for o in task.graph.outputs) == 2
    assert not module.layer._forward_hooks
    assert not hasattr(module, "installed")
    assert len(module(x)) == 2
    assert len(module(x)) == 2  # installed once


def test_concatenation_with_a_vector_of_no_elements_is_a_copy(tmp_path: Path) -> None:
    x = torch.randn(3, 5)
    graph = task_from_module(Growing(), (x,), {}, tmp_path).graph
    assert [i.role for i in graph.inputs] == ["input"]
    assert [n.op for n in graph.nodes][-1] == "aten.clone.default"
    assert graph.specs[graph.outputs[0].value].stride == (3, 1)


class FrozenDict(dict[str, int]):
    """Refuses what would change it, as the configuration of a model of diffusers does."""

    def _refuse(self, *_: object) -> None:
        raise TypeError("it is frozen")

    clear = update = pop = __setitem__ = __delitem__ = _refuse  # type: ignore[assignment]


class Configured(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.settings, self.calls_seen = FrozenDict(width=4), {"last": 0}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls_seen["last"] = self.settings["width"]
        return x * self.settings["width"]


def test_what_did_not_change_is_not_touched(tmp_path: Path) -> None:
    module = Configured()
    graph = task_from_module(module, (torch.randn(2, 4),), {}, tmp_path).graph
    assert any(n.op == "aten.mul.Tensor" for n in graph.nodes)
    assert module.calls_seen == {"last": 0}  # what did is as it was
