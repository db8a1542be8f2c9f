"""Fake quantisation: its graph and the kernels written from it keep every bit of ATen's own kernel, at ties, beyond
the range of the integers, and at values that are no numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from warpsmith.runtime.interpreter import run_graph

ROWS, CHANNELS = 7, 13
Quantise = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

# How many scales and zero points it takes, and the op with them.
FORMS: dict[str, tuple[int, Quantise]] = {
    "tensor": (1, lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -128, 127)),
    "symmetric": (1, lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, 0.037, 0, -8, 7)),
    "wide": (1, lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, 1e-4, 100, 0, 65535)),
    "given": (1, lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, s, z, -128, 127)),
    "channel": (CHANNELS, lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 1, -128, 127)),
    "rows": (ROWS, lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 0, -127, 127)),
}  # fmt: skip


def scales(count: int) -> torch.Tensor:
    return torch.linspace(0.21, 0.003, count)


def zero_points(count: int) -> torch.Tensor:
    return torch.arange(count, dtype=torch.int32) * 3 - 20


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.int32 if tensor.dtype == torch.float32 else torch.int16)


def inputs(dtype: torch.dtype) -> torch.Tensor:
    """Random values; exact ties of the scale 0.1; numbers far outside any range; NaN."""
    torch.manual_seed(5)
    x = torch.randn(ROWS, CHANNELS, 19) * 4
    x[0, :, :10] = (torch.arange(10) - 5 + 0.5) * 0.1
    x[1, :, 0], x[1, :, 1], x[1, :, 2], x[1, :, 3] = 3e4, -3e4, 0.0, -0.0
    x[2, :, 0] = float("nan")
    return x.to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_every_bit_of_torchs_own(bench: Any, form: str, dtype: torch.dtype) -> None:
    count, quantise = FORMS[form]
    args = (inputs(dtype), scales(count), zero_points(count))
    wanted, graph = quantise(*args), bench.graph(quantise, *args)
    assert not any("fake_quantize" in n.op for n in graph.nodes)
    values = {i.name: a for i, a in zip(graph.inputs, args, strict=True)}
    (name,) = graph.returned
    assert torch.equal(bits(run_graph(graph, values, wanted={name})[name]), bits(wanted))
    technique, unit = next(bench.techniques(graph, bench.whole(graph)))
    assert technique.name == "fused"
    (got,) = bench.run(unit, graph, values)
    assert torch.equal(bits(got), bits(wanted))


def test_a_fractional_zero_point_is_added_before_rounding(bench: Any) -> None:
    points = torch.linspace(-3.7, 4.2, CHANNELS)
    x = inputs(torch.float32)
    x[1:3] = 0.0

    def quantise(x: torch.Tensor, scale: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        return torch.fake_quantize_per_channel_affine(x, scale, points, 1, -100, 100)

    args = (x, scales(CHANNELS), points)
    graph = bench.graph(quantise, *args)
    values = {i.name: a for i, a in zip(graph.inputs, args, strict=True)}
    (name,) = graph.returned
    got, wanted = run_graph(graph, values, wanted={name})[name], quantise(*args)
    step = scales(CHANNELS)[:, None]
    assert ((got - wanted).abs() <= 1.01 * step).all()
    # Where a sum rounds to a tie, either step is right; torch takes the point off in double.
    assert torch.isclose(got, wanted, rtol=1e-5, atol=1e-6).float().mean() > 0.98
    assert (torch.round(x / step) * step != wanted).any()


def test_in_float64_the_op_stays_whole(bench: Any) -> None:
    count, quantise = FORMS["tensor"]
    graph = bench.graph(quantise, inputs(torch.float64), scales(count), zero_points(count))
    assert any("fake_quantize" in n.op for n in graph.nodes)
