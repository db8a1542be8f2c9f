"""The rarer pointwise ops: built, run and compared with torch, at ordinary and at extreme values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from warpsmith.codegen.lowering.sized import in_terms_of_size

Pair = tuple[torch.Tensor, torch.Tensor]

# One unit a group, one output an op; the first output ties the two inputs together.
GROUPS: dict[str, Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "inverse": lambda x, y: (torch.atan2(x, y), torch.atan(x), torch.asin(y), torch.acos(y), torch.acos(x)),
    "hyperbolic": lambda x, y: (x + y, torch.sinh(x), torch.cosh(x), torch.asinh(x), torch.acosh(x), torch.atanh(y)),
    "remainders": lambda x, y: (torch.fmod(x, y), torch.remainder(x, y), torch.floor_divide(x, y), x % 2.5),
    "quotients": lambda x, y: (torch.div(x, y, rounding_mode="trunc"), torch.div(x, 0.3, rounding_mode="floor")),
    "shrinks": lambda x, y: (x + y, F.softshrink(x, 0.4), F.hardshrink(y, 0.7), F.tanhshrink(x), F.threshold(y, 0.1, 20.0)),
    "units": lambda x, y: (x + y, F.celu(x, 1.3), F.selu(y), F.logsigmoid(x), F.relu6(x)),
    "gates": lambda x, y: (F.prelu(x, torch.full((1,), 0.3)), torch.lerp(x, y, 0.3), torch.lerp(x, y, y)),
    "tests": lambda x, y: (torch.copysign(x, y), torch.isfinite(x), torch.signbit(y), torch.isinf(x)),
    "numbers": lambda x, y: (
        x + y, torch.nan_to_num(x), torch.nan_to_num(y, 1.0, 2.0, -3.0), torch.frac(y), torch.erfc(x)
    ),
    "extrema": lambda x, y: (
        torch.fmax(x, y), torch.fmin(x, y), torch.fmax(torch.full((), 0.3), y), torch.round(x * 0.5)
    ),
    "lengths": lambda x, y: (torch.hypot(x, y), torch.tan(y), torch.special.xlog1py(x, y), torch.special.entr(y)),
}  # fmt: skip


def values(rows: int, width: int) -> Pair:
    torch.manual_seed(3)
    return torch.randn(rows, width) * 2, torch.rand(rows, width) * 1.8 - 0.9


@pytest.mark.parametrize("name", GROUPS)
def test_op_against_torch(bench: Any, name: str) -> None:
    args = values(13, 45)
    graph = bench.graph(GROUPS[name], *args)
    technique, unit = next(bench.techniques(graph, bench.whole(graph)))
    assert technique.name == "fused"
    bench.check(unit, graph, args)
    special = torch.tensor(
        [0.0, -0.0, 1.0, -1.0, float("inf"), -float("inf"), float("nan"), 1e-42, 80.0, -2.5]
    )
    if name == "remainders":  # torch's own vectorised fmod yields NaN for a denormal divisor
        special[7] = 1e-3
    x, y = (m.contiguous() for m in torch.meshgrid(special, special, indexing="ij"))
    got = bench.run(
        unit, bench.graph(GROUPS[name], x, y), {i.name: a for i, a in zip(graph.inputs, (x, y), strict=True)}
    )
    for position, (ours, theirs) in enumerate(zip(got, GROUPS[name](x, y), strict=True)):
        torch.testing.assert_close(
            ours, theirs, rtol=1e-5, atol=1e-37, equal_nan=True, msg=lambda m, p=position: f"output {p}: {m}"
        )


def test_numbers_that_come_from_sizes() -> None:
    sizes = [(37, "KEPT"), (90, "REDUCE"), (3330, "REDUCE * KEPT")]
    assert in_terms_of_size(37, sizes) == "(float)(KEPT)"
    assert in_terms_of_size(1 / 90, sizes) == "(1.0f / (float)(REDUCE))"
    assert in_terms_of_size(0.1 / 90, sizes) == "(0.1f / (float)(REDUCE))"
    for plain in (0.5, 2.0, 1e-3, 0.9, 38, 0.0):
        assert in_terms_of_size(plain, sizes) is None
    assert in_terms_of_size(0.0005, [(200, "REDUCE")]) is None
    assert in_terms_of_size(0.0005, [(200, "REDUCE")], share=True) == "(0.1f / (float)(REDUCE))"
    assert in_terms_of_size(0.9, [(200, "REDUCE")], share=True) is None
    assert in_terms_of_size(2.0, [(2, "REDUCE")]) is None
