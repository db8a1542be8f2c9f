"""What a run leaves to ATen is said by the names of the user's modules."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from warpsmith.pipeline.left import left_to_aten
from warpsmith.records import Graph
from warpsmith.tasks.memory import task_from_module
from warpsmith.tasks.regions import make_region


def graph(tmp_path: Path) -> Graph:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    return task_from_module(module, (torch.randn(1, 4, 8),), {}, tmp_path).graph


def attempt(graph: Graph, *ops: str) -> Any:
    """One that covers every node of these operations, each by a unit."""
    names = [n.name for n in graph.nodes if n.op.split(".")[1] in ops]
    return SimpleNamespace(
        candidate=SimpleNamespace(units=[SimpleNamespace(region=make_region(graph, [n])) for n in names])
    )


def test_layers_of_one_kind_are_one_line_with_the_reason_and_the_share(tmp_path: Path) -> None:
    task = graph(tmp_path)
    attention = [n.name for n in task.nodes if n.op.split(".")[1] == "scaled_dot_product_attention"]
    lines = left_to_aten(task, None, [], dict.fromkeys(attention, 40.0) | {task.nodes[0].name: 20.0})
    assert lines[0] == (
        "layers.*.self_attn: linear (4 times), scaled_dot_product_attention (2 times): stays a library call "
        "(80% of the reference's time)"
    )


def test_what_a_kernel_covers_is_not_left_and_what_lost_is_said(tmp_path: Path) -> None:
    task = graph(tmp_path)
    best, loser = attempt(task, "native_layer_norm", "relu", "add"), attempt(task, "linear")
    lines = left_to_aten(task, best, [best, loser], {})
    assert not any("norm" in line or "relu" in line for line in lines)
    assert "layers.*.linear1: linear (2 times): a kernel was tried and is not faster" in lines
    assert any("scaled_dot_product_attention (2 times): stays a library call" in line for line in lines)


def test_what_no_kernel_covers_is_told_apart_from_library_calls(tmp_path: Path) -> None:
    task = graph(tmp_path)
    assert "layers.*.norm1: native_layer_norm (2 times): no kernel covers it" in left_to_aten(
        task, None, [], {}
    )
