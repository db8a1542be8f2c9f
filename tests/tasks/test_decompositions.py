"""Operators that fall apart give what they gave."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.runtime.interpreter import run_graph
from warpsmith.tasks.decompositions import LIBRARIES, UNINITIALISED
from warpsmith.tasks.memory import export_module

GROUPED_MM = LIBRARIES["transformers", "grouped_mm_fallback"]


def grouped_mm_by_slices(rows: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    made, start = torch.zeros(rows.shape[0], weight.shape[2], dtype=rows.dtype), 0
    for expert, end in enumerate(offs.tolist()):
        made[start:end] = rows[start:end] @ weight[expert]
        start = end
    return made


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 9), ends=st.lists(st.integers(0, 9), min_size=1, max_size=6), seed=st.integers(0, 99)
)
def test_grouped_mm_multiplies_each_slice_by_its_expert(rows: int, ends: list[int], seed: int) -> None:
    source = torch.Generator().manual_seed(seed)
    offs = torch.tensor(sorted(min(end, rows) for end in ends), dtype=torch.int32)
    given_rows = torch.randn(rows, 4, generator=source, dtype=torch.float64)
    weight = torch.randn(len(ends), 4, 3, generator=source, dtype=torch.float64)
    torch.testing.assert_close(
        GROUPED_MM(given_rows, weight, offs), grouped_mm_by_slices(given_rows, weight, offs)
    )


def test_rows_of_no_expert_are_zero_whatever_they_hold() -> None:
    rows = torch.full((3, 2), float("inf"))
    made = GROUPED_MM(rows, torch.ones(4, 2, 2), torch.zeros(4, dtype=torch.int32))
    assert made.eq(0).all()


def test_mixture_of_experts_of_transformers_falls_into_aten() -> None:
    pytest.importorskip("transformers.integrations.moe")
    from warpsmith.tasks.decompositions import decomposition_table

    assert torch.ops.transformers.grouped_mm_fallback.default in decomposition_table()


class WritesEveryPlace(torch.nn.Module):
    """As a mixture of experts undoes its sorting."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        order = torch.argsort(x)
        inverse = torch.empty_like(order)
        inverse[order] = torch.arange(len(order))
        return inverse


def test_uninitialised_memory_is_zero_in_a_graph(tmp_path: Path) -> None:
    task = export_module(WritesEveryPlace(), (torch.randn(5),), {}, tmp_path).task
    names = [node.op for node in task.main.graph.nodes]
    assert not [name for name in names if "empty" in name]
    assert any("full" in name for name in names)


@pytest.mark.parametrize(("size", "layout"), [((2, 3, 5), (2, 0, 1)), ((4,), (0,)), ((0, 2), (1, 0))])
def test_zeros_lie_in_memory_as_the_uninitialised_would(
    size: tuple[int, ...], layout: tuple[int, ...]
) -> None:
    made = UNINITIALISED["empty_permuted"](list(size), list(layout))
    assert made.eq(0).all()
    assert made.stride() == torch.empty_permuted(size, layout).stride()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "layer",
    [
        torch.nn.Conv1d(4, 6, 3),
        torch.nn.Conv2d(4, 6, 3, groups=2),
        torch.nn.ConvTranspose2d(4, 6, 3, stride=2),
    ],
)
def test_the_bias_of_a_convolution_in_half_precision_is_an_addition(
    tmp_path: Path, dtype: torch.dtype, layer: torch.nn.Module
) -> None:
    rank = layer.weight.dim() - 2  # type: ignore[operator, union-attr]
    inputs = (torch.randn(2, 4, *[9] * rank).to(dtype),)
    graph = export_module(layer.to(dtype).eval(), inputs, {}, tmp_path).task.main.graph
    ops = [n.op for n in graph.nodes]
    assert ops[0] == "aten.convolution.default"
    assert "aten.add.Tensor" in ops
    assert graph.nodes[0].args[2] is None


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kernel", [(4, 4), (7, 7), (2, 6)])
def test_a_patch_embedding_in_half_precision_is_a_linear_layer(
    tmp_path: Path, kernel: tuple[int, int], bias: bool
) -> None:
    layer = torch.nn.Conv2d(3, 6, kernel, stride=kernel, bias=bias).half().eval()
    pixels = torch.randn(2, 3, 4 * kernel[0], 2 * kernel[1]).half()
    graph = export_module(layer, (pixels,), {}, tmp_path).task.main.graph
    (output,) = graph.outputs
    exact = layer.double()(pixels.double())
    arguments = {"weight": layer.weight, "bias": layer.bias, "x": pixels, "input": pixels}
    values = {i.name: next(v for k, v in arguments.items() if i.name.endswith(k)) for i in graph.inputs}
    (result,) = run_graph(graph, values, float64=True, wanted={output.value}).values()
    assert "aten.linear.default" in {n.op for n in graph.nodes}
    assert graph.specs[output.value].stride == exact.stride()
    torch.testing.assert_close(result, exact)


@pytest.mark.parametrize(
    "layer",
    [
        torch.nn.Conv2d(3, 6, 4, stride=2),
        torch.nn.Conv2d(3, 6, 4, stride=4, padding=2),
        torch.nn.Conv2d(3, 6, 5, stride=5),  # a part of a patch remains
        torch.nn.Conv2d(3, 6, 1),
        torch.nn.Conv2d(3, 6, 2, stride=2, dilation=2),
        torch.nn.Conv2d(3, 6, 4, stride=4, groups=3),
        torch.nn.ConvTranspose2d(3, 6, 4, stride=4),
    ],
    ids=str,
)
def test_other_convolutions_stay_convolutions(tmp_path: Path, layer: torch.nn.Module) -> None:
    graph = export_module(layer.half(), (torch.randn(2, 3, 16, 8).half(),), {}, tmp_path).task.main.graph
    assert graph.nodes[0].op == "aten.convolution.default"


def test_many_channels_stay_a_convolution(tmp_path: Path) -> None:
    layer = torch.nn.Conv2d(8, 6, 4, stride=4).half()
    graph = export_module(layer, (torch.randn(2, 8, 16, 8).half(),), {}, tmp_path).task.main.graph
    assert graph.nodes[0].op == "aten.convolution.default"


def test_the_bias_of_a_convolution_in_float32_stays_its_operand(tmp_path: Path) -> None:
    layer = torch.nn.Conv2d(4, 6, 3).eval()
    graph = export_module(layer, (torch.randn(2, 4, 9, 9),), {}, tmp_path).task.main.graph
    assert [n.op for n in graph.nodes] == ["aten.convolution.default"]
