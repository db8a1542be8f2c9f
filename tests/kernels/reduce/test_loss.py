"""Losses, reductions over two levels, integers and picks: real builds against torch in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warpsmith.agents.expert.planner import plans
from warpsmith.codegen.lowering.levels import is_reducing
from warpsmith.codegen.lowering.lower import lower
from warpsmith.codegen.program import Unsupported
from warpsmith.kernels.reduce.reduction_pattern import LOSS

Args = tuple[torch.Tensor, ...]
Make = Callable[[int, int], Args]


def labelled(rows: int, classes: int) -> Args:
    target = torch.randint(0, max(classes, 1), (rows,))
    target[: rows // 5] = -100
    return torch.randn(rows, classes) * 3, target


def weighted(rows: int, classes: int) -> Args:
    return *labelled(rows, classes), 0.5 + torch.rand(classes)


def pixels(rows: int, classes: int) -> Args:
    target = torch.randint(0, classes, (2, rows, 9))
    target[:, ::4] = -100
    return torch.randn(2, classes, rows, 9), target, 0.5 + torch.rand(classes)


def pairs(rows: int, width: int) -> Args:
    return torch.randn(rows, width), torch.randn(rows, width)


def triples(rows: int, width: int) -> Args:
    return torch.randn(rows, width), torch.randn(rows, width), torch.randn(rows, width)


def signed(rows: int, width: int) -> Args:
    return torch.randn(rows, width), torch.randn(rows, width), torch.randint(0, 2, (rows,)) * 2 - 1


def rated(rows: int, width: int) -> Args:
    return torch.randn(rows, width), torch.rand(rows, width)


def binary(rows: int, width: int) -> Args:
    return torch.randn(rows, width), torch.randint(0, 2, (rows, width)) * 2 - 1


def smooth(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x, t, label_smoothing=0.1)


def distilled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.kl_div(F.log_softmax(x, -1), F.log_softmax(y, -1), reduction="batchmean", log_target=True)


def gaussian(x: torch.Tensor, y: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    variance = v.abs().clamp(min=1e-6)
    return (0.5 * (torch.log(variance) + (x - y) ** 2 / variance)).mean()


def differences(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    huber = F.huber_loss(x, y, delta=0.7)
    return F.mse_loss(x, y), F.l1_loss(x, y, reduction="sum"), huber, F.smooth_l1_loss(x, y, beta=0.5)


def signs(x: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, ...]:
    hinge = torch.mean(torch.clamp(1 - x * t, min=0))
    return hinge, F.hinge_embedding_loss(x, t.float(), margin=0.8), F.soft_margin_loss(x, t)


def likelihoods(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    logits = F.binary_cross_entropy_with_logits(x, y)
    return F.binary_cross_entropy(torch.sigmoid(x), y), logits, F.poisson_nll_loss(x, y * 5, full=True)


CASES: dict[str, tuple[Callable[..., object], Make]] = {
    "cross_entropy": (lambda x, t: F.cross_entropy(x, t), labelled),
    "cross_entropy_rows": (lambda x, t: F.cross_entropy(x * 0.5, t, reduction="none"), labelled),
    "cross_entropy_sum_weight": (lambda x, t, w: F.cross_entropy(x, t, w, reduction="sum"), weighted),
    "cross_entropy_smooth": (smooth, labelled),
    "cross_entropy_probabilities": (lambda x, y: F.cross_entropy(x, y.softmax(-1)), pairs),
    "segmentation": (lambda x, t, w: F.cross_entropy(x, t, w), pixels),
    "nll": (lambda x, t: F.nll_loss(x * 2, t), labelled),
    "distilled": (distilled, pairs),
    "kl": (lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"), pairs),
    "cosine_embedding": (lambda x, y, t: F.cosine_embedding_loss(x, y, t, margin=0.1), signed),
    "triplet": (lambda a, p, n: F.triplet_margin_loss(a, p, n), triples),
    "triplet_swap": (lambda a, p, n: F.triplet_margin_loss(a, p, n, swap=True, p=1), triples),
    "gaussian": (gaussian, triples),
    "margin_ranking": (lambda x, y, t: F.margin_ranking_loss(x, y, t[:, None], margin=0.5), signed),
}
SHAPES = {"segmentation": (7, 11), "cross_entropy_smooth": (40, 200)}


SEVERAL: dict[
    str, tuple[Callable[..., object], Make]
] = {  # losses of one module, each a region or part of one
    "differences": (differences, pairs),
    "signs": (signs, binary),
    "likelihoods": (likelihoods, rated),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_losses_per_element_are_covered_and_accurate(bench: Any, name: str) -> None:
    function, make = SEVERAL[name]
    torch.manual_seed(0)
    args = make(37, 90)
    graph = bench.graph(function, *args)
    regions = plans(graph, bench.facts)[0]
    covered = {n for region in regions for n in region.nodes}
    assert not [n.name for n in graph.nodes if is_reducing(n) and n.name not in covered]
    for region in regions:
        _, unit = next(bench.techniques(graph, region))
        bench.check(unit, graph, args)


@pytest.mark.parametrize("name", CASES)
def test_a_loss_is_one_region_and_accurate(bench: Any, name: str) -> None:
    """The widest plan covers all that the loss computes in one region; a technique and another shape hold."""
    function, make = CASES[name]
    torch.manual_seed(0)
    args = make(*SHAPES.get(name, (37, 90)))
    graph = bench.graph(function, *args)
    region = max(plans(graph, bench.facts)[0], key=lambda r: len(r.nodes))
    assert not [n.name for n in graph.nodes if is_reducing(n) and n.name not in region.nodes]
    units = [unit for _, unit in bench.techniques(graph, region)]
    unit = units[len(name) % len(units)]  # over the cases, every technique is met
    bench.check(unit, graph, args)
    ragged = make(5, 3)
    bench.check(unit, bench.graph(function, *ragged), ragged)


def whole(bench: Any, function: Callable[..., object], args: Args, ulp: float = 8.0, take: int = 9) -> None:
    graph = bench.graph(function, *args)
    units = [unit for _, unit in bench.techniques(graph, bench.whole(graph))]
    assert units
    for unit in units[:take]:
        bench.check(unit, graph, args, ulp)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits(bench: Any, dtype: torch.dtype) -> None:
    x, target = labelled(33, 77)
    whole(bench, F.cross_entropy, (x.to(dtype), target), take=1)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_integers_of_any_width_are_compared_exactly(bench: Any, dtype: torch.dtype) -> None:
    """2^24 + 1 is not a float32: a comparison in float32 would call the two equal."""
    big = 2**24 if dtype != torch.uint8 else 200
    x, t = torch.randn(19, 37), torch.randint(0, 2, (19, 37)).to(dtype) + big
    rows = torch.randint(0, 2, (19,)).to(dtype) + big
    whole(bench, lambda x, t: torch.where(t == big + 1, x, -x) + t, (x, t))
    whole(bench, lambda x, t: torch.where(t > big, x.sum(-1), x.amax(-1)), (x, rows), take=1)


def test_integer_arithmetic_is_exact(bench: Any) -> None:
    a, b = torch.randint(-(2**40), 2**40, (11, 45)), torch.randint(-9, 9, (45,))
    b[b == 0] = 3
    whole(bench, lambda a, b: (a * 3 - b, a + 2 * b, (a + 1) // b, a % b, (a & 255) ^ 7), (a, b), take=1)
    whole(bench, lambda a, b: (a.clamp(min=-5, max=2**35), torch.maximum(a, b), -a.abs()), (a, b), take=1)
    whole(bench, lambda a, b: (a > b).sum(-1) * 2 + 1, (a, b), take=1)


def test_counts_of_rows_columns_and_all(bench: Any) -> None:
    x = torch.randn(31, 70)
    for function in (
        lambda x: (x > 0).sum(), lambda x: (x > 0).sum(0),
        lambda x: ((x.softmax(-1) > 0.01).sum(), (x > 0).sum(1)), lambda x: ((x > 0).sum(1) > 30).sum(),
    ):  # fmt: skip
        whole(bench, function, (x,), take=1)


def test_strided_and_transposed_inputs(bench: Any) -> None:
    x, target = torch.randn(50, 60)[:, ::2].t(), torch.randint(0, 50, (60,))[::2]
    whole(bench, F.cross_entropy, (x, target), take=2)
    x = torch.randn(2, 5, 6, 9).permute(0, 2, 3, 1)  # channels come last in memory as in shape
    whole(
        bench,
        lambda x, t: F.cross_entropy(x.permute(0, 3, 1, 2), t),
        (x, torch.randint(0, 5, (2, 6, 9))),
        take=2,
    )


def test_infinities_and_nan_in_logits(bench: Any) -> None:
    x, target = torch.randn(12, 40), torch.randint(0, 40, (12,))
    x[1, 3], x[2, 5] = -float("inf"), float("nan")
    x[4, :], x[6, 7], x[8] = -float("inf"), float("inf"), x[8] * 1e-42
    target[1] = 3
    whole(bench, lambda x, t: F.cross_entropy(x, t, reduction="none"), (x, target))


def test_no_rows_one_element_and_all_ignored(bench: Any) -> None:
    args = labelled(21, 30)
    graph = bench.graph(F.cross_entropy, *args)
    none, one = labelled(0, 30), (torch.randn(1, 1), torch.zeros(1, dtype=torch.int64))
    ignored = (args[0], torch.full((21,), -100))
    _, unit = next(bench.techniques(graph, bench.whole(graph)))
    for other in (none, one, ignored):
        bench.check(unit, bench.graph(F.cross_entropy, *other), other)


def test_all_rows_is_deterministic(bench: Any) -> None:
    args = labelled(700, 60)
    graph = bench.graph(smooth, *args)
    _, unit = next(bench.techniques(graph, bench.whole(graph)))
    values = {i.name: a for i, a in zip(graph.inputs, args, strict=True)}
    first, second = (bench.run(unit, graph, values) for _ in range(2))
    assert torch.equal(first[0], second[0])


@pytest.mark.slow
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(sorted(CASES)),
    rows=st.integers(1, 70),
    width=st.integers(1, 90),
    seed=st.integers(0, 9),
)
def test_random_shapes(bench: Any, name: str, rows: int, width: int, seed: int) -> None:
    function, make = CASES[name]
    torch.manual_seed(seed)
    args = make(rows, width)
    graph = bench.graph(function, *args)
    for plan in plans(graph, bench.facts)[:1]:
        for region in plan:
            unit = next((unit for _, unit in bench.techniques(graph, region)), None)
            if unit is not None:
                bench.check(unit, graph, args)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.softmax(x, -1).sum(0),
        lambda x: x - x.mean(-1).mean(),
        lambda x: torch.softmax(x.sum(-1), 0),
        lambda x: x.sum(-1).var(),
    ],
)
def test_two_levels_are_not_stretched(bench: Any, function: Callable[..., object]) -> None:
    """What a row-wise pass and one combination over the rows cannot express is declined, as a whole."""
    graph = bench.graph(function, torch.randn(12, 30))
    with pytest.raises(Unsupported):
        lower(graph, bench.whole(graph))


def test_a_gather_of_several_elements_is_not_a_loss(bench: Any) -> None:
    x, index = torch.randn(6, 30), torch.randint(0, 30, (6, 2))
    graph = bench.graph(lambda x, i: torch.gather(x.log_softmax(-1), 1, i), x, index)
    assert not any(LOSS.covers(graph, n) for n in graph.nodes)
