"""A task without elements is refused by name; a graph without elements is still a graph, for variants and regions."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from warpsmith.errors import TaskError
from warpsmith.records import Graph
from warpsmith.tasks.emptiness import refuse_empty
from warpsmith.tasks.export import export_program, program_graph
from warpsmith.tasks.memory import task_from_module


class Nothing(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.relu(), x[..., :0] + 1


class Joins(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y, y.new_ones(1, 8)])


def graph_of(module: nn.Module, *args: torch.Tensor) -> Graph:
    return program_graph(export_program(module, args, {}, __file__), __file__)


def test_an_output_without_elements_is_refused_by_name() -> None:
    with pytest.raises(TaskError, match=r"the output \w+ has no element \(float32\[1,8,0\]\).*sizes above 0"):
        refuse_empty(graph_of(Nothing(), torch.randn(1, 8, 8)))


def test_inputs_that_all_have_no_element_are_refused_by_name() -> None:
    with pytest.raises(TaskError, match=r"the input x has no element \(float32\[0,8\]\)"):
        refuse_empty(graph_of(Joins(), torch.randn(0, 8), torch.randn(0, 8)))
    refuse_empty(graph_of(Joins(), torch.randn(0, 8), torch.randn(1, 8)))


def test_a_module_called_on_nothing_is_no_task(tmp_path) -> None:
    with pytest.raises(TaskError, match="has no element"):
        task_from_module(nn.ReLU(), (torch.randn(0, 8),), {}, tmp_path)
