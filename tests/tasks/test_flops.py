"""FLOP counts against hand counts."""

from __future__ import annotations

import pytest

from warpsmith.records import TensorSpec
from warpsmith.tasks.flops import node_flops


def spec(*shape: int) -> TensorSpec:
    stride, step = [], 1
    for n in reversed(shape):
        stride.append(step)
        step *= n
    return TensorSpec(shape=shape, dtype="float32", stride=tuple(reversed(stride)))


@pytest.mark.parametrize(
    ("op", "reads", "out", "flops"),
    [
        ("aten.mm.default", [spec(3, 5), spec(5, 7)], spec(3, 7), 2 * 3 * 5 * 7),
        ("aten.bmm.default", [spec(2, 3, 5), spec(2, 5, 7)], spec(2, 3, 7), 2 * 2 * 3 * 5 * 7),
        ("aten.addmm.default", [spec(7), spec(3, 5), spec(5, 7)], spec(3, 7), 2 * 3 * 5 * 7 + 21),
        ("aten.linear.default", [spec(4, 3, 5), spec(7, 5)], spec(4, 3, 7), 2 * 4 * 3 * 5 * 7),
        # (N, 4, 10, 10) with 8 filters of (4, 3, 3) → (N, 8, 8, 8)
        ("aten.convolution.default", [spec(2, 4, 10, 10), spec(8, 4, 3, 3)], spec(2, 8, 8, 8), 2 * 1024 * 36),
        # depthwise: 4 filters of (1, 3, 3)
        ("aten.convolution.default", [spec(2, 4, 10, 10), spec(4, 1, 3, 3)], spec(2, 4, 8, 8), 2 * 512 * 9),
        (
            "aten.scaled_dot_product_attention.default",
            [spec(1, 2, 4, 8)] * 3,
            spec(1, 2, 4, 8),
            2 * 8 * 4 * 16,
        ),
        ("aten.exp.default", [spec(3, 4)], spec(3, 4), 12),
        ("aten.sum.dim_IntList", [spec(3, 4)], spec(3), 12),
        ("aten.view.default", [spec(3, 4)], spec(12), 0),
        ("aten.sum.default", [spec(0)], spec(), 1),
    ],
)
def test_counts(op: str, reads: list[TensorSpec], out: TensorSpec, flops: int) -> None:
    assert node_flops(op, reads, [out]) == flops


def test_transposed_convolution_counts_by_its_input() -> None:
    inputs, weight, out = spec(1, 4, 5, 5), spec(4, 8, 3, 3), spec(1, 8, 7, 7)
    assert node_flops("aten.convolution.default", [inputs, weight], [out], transposed=True) == 2 * 100 * 8 * 9
