"""Every family on inputs that hypothesis draws: shapes (empty, one element, ragged), layouts (transposed, far apart),
dtypes and values (infinities, NaN, subnormals, signed zeros), against float64. WARPSMITH_TEST_EXAMPLES asks for more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from warpsmith.agents.expert.planner import plans
from warpsmith.kernels.registry import family_of

EXAMPLES = int(os.environ.get("WARPSMITH_TEST_EXAMPLES", "3"))
SIZES = st.sampled_from([1, 2, 3, 5, 7, 8, 16, 17, 31, 33, 65, 130, 257])
SPECIAL = (float("inf"), -float("inf"), float("nan"), 1e-42, -1e-40, 0.0, -0.0, 1e4, -1e4)
DTYPES = (torch.float32, torch.float32, torch.bfloat16, torch.float16)
LAYOUTS = ("contiguous", "transposed", "far apart")

# family → functions of the inputs, shapes of the inputs by the sizes drawn; a size of zero where torch allows it.
Shapes = Callable[[Any], list[tuple[int, ...]]]
Case = tuple[Callable[..., object], Shapes]


def rows(draw: Any) -> list[tuple[int, ...]]:
    return [(draw(st.sampled_from([0, 1, 3, 9])), draw(SIZES))]


def cube(draw: Any) -> list[tuple[int, ...]]:
    return [(draw(st.integers(1, 4)), draw(SIZES), draw(st.sampled_from([1, 5, 16, 40])))]


def twins(draw: Any) -> list[tuple[int, ...]]:
    return cube(draw) * 2


def planes(draw: Any) -> list[tuple[int, ...]]:
    return [(draw(st.integers(1, 2)), draw(st.integers(1, 9)), *(draw(st.integers(6, 35)) for _ in range(2)))]


def product(draw: Any) -> list[tuple[int, ...]]:
    m, n, k = (draw(st.sampled_from([1, 2, 5, 9, 33])) for _ in range(3))
    return [(m, k), (n, k), (n,)]


def heads(draw: Any) -> list[tuple[int, ...]]:
    batch, length, other = (draw(st.sampled_from([1, 2, 5, 33])) for _ in range(3))
    width = draw(st.sampled_from([4, 8, 20]))
    return [(batch, 2, length, width), (batch, 2, other, width), (batch, 2, other, width)]


def kernel(draw: Any) -> list[tuple[int, ...]]:
    group = draw(st.integers(1, 9))
    side = draw(st.sampled_from([1, 3]))
    return [(1, group, draw(st.integers(4, 30)), draw(st.integers(4, 30))), (group, 1, side, side)]


FAMILIES: dict[str, list[Case]] = {
    "pointwise": [
        (lambda x, y: torch.where(x > y, F.gelu(x), torch.tanh(y)) * 0.5, twins),
        (lambda x: F.hardswish(x) + F.softplus(x).clamp(-3, 9), rows),
        (lambda x, y: (torch.minimum(x, y).abs() + 1).log() - F.leaky_relu(y).sigmoid(), twins),
    ],
    "softmax": [
        (lambda x: torch.softmax(x * 2, -1), rows),
        (lambda x: torch.log_softmax(x, 1), cube),
        (lambda x: torch.logsumexp(x, 0), cube),
    ],
    "reduction": [
        (lambda x: x.sum(1), cube),
        (lambda x: (x.amax(-1), x.argmax(-1)), cube),
        (lambda x: x.mean((0, 2)), cube),
        (lambda x: (x * x).sum(-1), rows),
        (lambda x: torch.linalg.vector_norm(x, dim=0), cube),
    ],
    "norm": [
        (lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5), cube),
        (lambda x: F.normalize(x, dim=1), cube),
    ],
    "scan": [
        (lambda x: torch.cumsum(x, 1), cube),
        (lambda x: torch.cumsum(x.flip(-1), -1).flip(-1), rows),
    ],
    "loss": [
        (lambda x, y: F.mse_loss(x, y), twins),
        (lambda x, y: F.smooth_l1_loss(x, y, reduction="none").mean(-1), twins),
    ],
    "pooling": [
        (lambda x: F.max_pool2d(x, 3, stride=2, padding=1), planes),
        (lambda x: F.avg_pool2d(x, 2, ceil_mode=True, count_include_pad=False), planes),
        (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), planes),
    ],
    "upsample": [
        (lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), planes),
        (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False), planes),
    ],
    "layout": [
        (lambda x, y: torch.cat([x.transpose(1, 2), y.transpose(1, 2) * 2], 1), twins),
        (lambda x: F.pad(x, (1, 2), value=3.0)[:, ::2].transpose(0, 1), cube),
    ],
    "matmul": [(lambda x, w, b: torch.relu(x @ w.t() + b), product)],
    "collapse": [(lambda x, w, b: F.linear(x, w, b).sum(1, keepdim=True), product)],
    "attention": [(lambda q, k, v: torch.softmax(q @ k.mT * 0.3, -1) @ v, heads)],
    "convolution": [(lambda x, w: F.relu(F.conv2d(x, w, padding=1, groups=w.shape[0])), kernel)],
    "local_response": [(lambda x: F.local_response_norm(x, 3), planes)],
    "fake_quantisation": [(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255), rows)],
}
FLOAT32_ONLY = {"fake_quantisation", "local_response"}  # in torch's own CPU kernels
# What a wrong order of additions of these yields differs between torch's own kernels, too.
FINITE = {"matmul", "collapse", "convolution", "attention"}


def laid_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values with other strides."""
    if layout == "transposed" and x.dim() > 1:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "far apart" and x.numel():
        wide = torch.full((*x.shape[:-1], x.shape[-1] + 1, 37), 7.0, dtype=x.dtype)
        wide[..., 0:1, :] = 9.0
        return wide[..., 1:, 5].copy_(x)
    return x


def drawn(data: st.DataObject, shape: tuple[int, ...], dtype: torch.dtype, special: bool) -> torch.Tensor:
    x = torch.randn(shape).to(dtype)
    if special and x.numel():
        for value in data.draw(st.lists(st.sampled_from(SPECIAL), max_size=4)):
            x.view(-1)[data.draw(st.integers(0, x.numel() - 1))] = value
    return laid_out(x, data.draw(st.sampled_from(LAYOUTS)))


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
@settings(  # each example is compiled: what fails is not shrunk
    max_examples=EXAMPLES, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)  # fmt: skip
def test_whatever_comes(bench: Any, family: str, data: st.DataObject) -> None:
    function, shapes = data.draw(st.sampled_from(FAMILIES[family]))
    dtype = torch.float32 if family in FLOAT32_ONLY else data.draw(st.sampled_from(DTYPES))
    torch.manual_seed(data.draw(st.integers(0, 99)))
    args = tuple(drawn(data, s, dtype, family not in FINITE) for s in shapes(data.draw))
    graph = bench.graph(function, *args)
    for region in {r.id: r for plan in plans(graph, bench.facts) for r in plan}.values():
        found = family_of(graph, region)
        offered = found.techniques(graph, region, bench.facts) if found is not None else []
        if found is not None and offered:
            technique = data.draw(st.sampled_from(offered))
            bench.check(found.write(graph, region, technique), graph, args, ulp=16.0)


def test_a_length_that_leaves_no_rest_is_built_without_warnings(bench: Any) -> None:
    """GCC takes the 8 elements after 32 of 40 for a rest of up to 32, which would not fit a vector."""
    x = torch.randn(1, 3, 40).to(torch.bfloat16)
    graph = bench.graph(lambda x: x.mean(-1, keepdim=True), x)
    names = set()
    for technique, unit in bench.techniques(graph, bench.whole(graph)):
        bench.check(unit, graph, (x,), ulp=16.0)
        names.add(technique.name)
    assert "split-row" in names


def test_a_row_of_zeros_in_half_precision(bench: Any) -> None:
    """Torch divides it by an epsilon that float16 does not have, and makes NaN of it; units compute in float32."""
    x = torch.zeros(2, 8, dtype=torch.float16)
    x[1] = torch.randn(8)
    graph = bench.graph(lambda x: F.normalize(x, dim=1), x)
    region = bench.whole(graph)
    assert torch.isnan(F.normalize(x, dim=1)[0]).all()
    for _, unit in bench.techniques(graph, region):
        bench.check(unit, graph, (x,), ulp=16.0)


def test_gelu_of_infinity(bench: Any) -> None:
    """On some processors torch's vectors of floats make NaN of it; a unit that has infinity is right, and one that has anything else is not."""
    x = torch.randn(4, 33)
    x[1, 5], x[2, 7] = float("inf"), float("-inf")
    graph = bench.graph(F.gelu, x)
    assert not torch.isfinite(F.gelu(x)[1, 5])
    for _, unit in bench.techniques(graph, bench.whole(graph)):
        bench.check(unit, graph, (x,), ulp=16.0)
