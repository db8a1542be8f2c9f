"""Other calls of the library for the same operations: found where they fit, right over shapes, dtypes and strides, declined elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from warpsmith.agents.expert.brain import hypotheses, write_units
from warpsmith.agents.expert.planner import plans
from warpsmith.facts import Facts
from warpsmith.judge.correctness.stepping import check_layout, check_stated
from warpsmith.judge.labels import labels
from warpsmith.kernels.library import layout_components
from warpsmith.kernels.library.library import LIBRARY
from warpsmith.kernels.registry import families_of, family_of
from warpsmith.records import Candidate, Graph, Unit
from warpsmith.runtime.deployed import deploy
from warpsmith.runtime.interpreter import run_graph
from warpsmith.runtime.rewrites import ALLOWED, deployed_graph
from warpsmith.tasks.export import export_program, program_graph
from warpsmith.tasks.regions import make_region

FACTS = Facts(threads=2, bandwidth=4e12, flop_rate=5e13, target="cuda")
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 4e-2, torch.float16: 4e-3}
Function = Callable[..., object]
Made = tuple[torch.Tensor, ...]


class Plain(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> object:
        return self.function(*args)


def graph_of(function: Function, args: Made) -> Graph:
    return program_graph(export_program(Plain(function).eval(), args, {}, "test.py"), "test.py")


def write(graph: Graph) -> list[Unit]:
    """A unit for each region and technique that the family offers."""
    regions = [make_region(graph, names) for names in LIBRARY.cut(graph)]
    return [LIBRARY.write(graph, r, t) for r in regions for t in LIBRARY.techniques(graph, r, FACTS)]


def check(function: Function, args: Made, technique: str, *others: Made) -> Unit:
    """The one unit for the main arguments computes the same, in the same layout, on them and on those of other sizes."""
    main = graph_of(function, args)
    (unit,) = write(main)
    assert (unit.technique, unit.language) == (technique, "aten")
    assert unit.rewrite is not None
    for case in (args, *others):
        graph = graph_of(function, case)
        check_stated(unit.rewrite, graph.specs, unit.region.inputs, unit.region.outputs)
        values = {i.name: a for i, a in zip(graph.inputs, case, strict=True)}
        before = run_graph(graph, values, wanted={*unit.region.inputs, *unit.region.outputs})
        after = run_graph(
            unit.rewrite, {n: before[n] for n in unit.region.inputs}, wanted=set(unit.region.outputs)
        )
        for name in unit.region.outputs:
            expected = before[name]
            error = TOLERANCE[expected.dtype]
            torch.testing.assert_close(after[name], expected, rtol=error, atol=error)
        check_layout(after, graph.specs)
    assert len(deploy(deployed_graph(main, [unit]), [])(args)) == len(main.outputs)
    return unit


def random(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Made:
    torch.manual_seed(0)
    return tuple(torch.randn(s, dtype=dtype) / max(1, s[-1]) ** 0.5 for s in shapes)


def bottleneck(x, down, spread, up, scale, shift, mean, var):  # type: ignore[no-untyped-def]
    """A ResNet bottleneck's operations, two branches of them joined."""
    y = F.relu(F.conv2d(x, down))
    y = F.batch_norm(y, mean, var.abs() + 0.5, scale, shift, False, 0.1, 1e-3)
    return F.relu(F.conv2d(F.silu(F.conv2d(y, spread, padding=1)), up) + x)


def bottleneck_args(
    dtype: torch.dtype, batch: int = 2, size: int = 9, channels: int = 8, inner: int = 4
) -> Made:
    shapes = (
        (batch, channels, size, size + 1),
        (inner, channels, 1, 1),
        (inner, inner, 3, 3),
        (channels, inner, 1, 1),
    )
    return random(*shapes, *[(inner,)] * 4, dtype=dtype)


DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


@DTYPES
def test_a_bottleneck_runs_in_channels_last_and_ends_in_its_own_layout(dtype: torch.dtype) -> None:
    others = bottleneck_args(dtype, 3, 5, 6), bottleneck_args(dtype, 1, 1, 8)
    unit = check(bottleneck, bottleneck_args(dtype), "library-channels-last", *others)
    assert unit.rewrite is not None
    images = [n for n in unit.rewrite.nodes if n.op == "aten.clone.default"]
    assert len(images) == 3, "the image, the weights of nine taps, and the result"


@DTYPES
def test_images_in_another_layout_are_converted_too(dtype: torch.dtype) -> None:
    x, weight = random((2, 7, 6, 4), (5, 4, 3, 3), dtype=dtype)
    strided = x.permute(0, 3, 2, 1)  # neither layout
    check(lambda x, w: F.gelu(F.conv2d(x.contiguous(), w)), (strided, weight), "library-channels-last")


@DTYPES
def test_pools_joins_and_several_outputs(dtype: torch.dtype) -> None:
    def run(x, a, b):  # type: ignore[no-untyped-def]
        left, right = F.conv2d(x, a, padding=1), F.conv_transpose2d(x, b, padding=1)
        joined = torch.cat([F.max_pool2d(left, 2), F.avg_pool2d(right, 2)], 1)
        return left, F.interpolate(joined, scale_factor=2)

    args = random((2, 4, 8, 6), (3, 4, 3, 3), (4, 5, 3, 3), dtype=dtype)
    check(run, args, "library-channels-last", random((1, 4, 4, 4), (3, 4, 3, 3), (4, 5, 3, 3), dtype=dtype))


def test_what_leaves_the_layout_and_comes_back_is_two_regions() -> None:
    def run(x, a, b):  # type: ignore[no-untyped-def]
        y = F.conv2d(x, a, padding=1)
        return F.conv2d(torch.softmax(y.flatten(2), -1).view(y.shape) + y, b)

    graph = graph_of(run, random((2, 4, 8, 6), (4, 4, 3, 3), (3, 4, 1, 1)))
    first, second = LIBRARY.cut(graph)
    assert "convolution" in first
    assert "convolution_1" in second
    assert len(plans(graph, FACTS)) > 0


def test_channels_last_graphs_and_volumes_are_left_alone() -> None:
    x, weight = random((2, 4, 8, 6), (4, 4, 3, 3))
    last = x.to(memory_format=torch.channels_last)
    assert write(graph_of(lambda x, w: F.conv2d(x, w), (last, weight))) == []
    assert write(graph_of(lambda x, w: F.conv3d(x, w), random((2, 4, 5, 5, 5), (4, 4, 3, 3, 3)))) == []
    assert write(graph_of(lambda x: F.relu(x), (x,))) == []


def test_what_runs_in_channels_last_may_be_in_a_unit() -> None:
    layout = layout_components.ELEMENTWISE | layout_components.WINDOWED | layout_components.UPSAMPLING
    assert layout <= ALLOWED


EPILOGUES: dict[str, tuple[Function, tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]] = {
    "linear, relu": (lambda x, w, b: F.relu(F.linear(x, w, b)), ((8, 16), (12, 16), (12,)), ((5, 7), (3, 7), (3,))),
    "rows of images, relu": (
        lambda x, w, b: F.relu(F.linear(x, w, b)), ((4, 8, 16), (12, 16), (12,)), ((3, 1, 7), (3, 7), (3,)),
    ),
    "linear + bias": (lambda x, w, b: F.linear(x, w) + b, ((4, 8, 16), (12, 16), (12,)), ((1, 3, 5), (2, 5), (2,))),
    "mm + bias, relu": (lambda x, w, b: F.relu(b + x @ w), ((8, 16), (16, 12), (12,)), ((1, 4), (4, 3), (3,))),
    "matmul + bias": (lambda x, w, b: x @ w + b, ((2, 8, 16), (16, 12), (12,)), ((1, 2, 4), (4, 3), (3,))),
    "linear + residual": (
        lambda x, w, r: r + F.linear(x, w), ((4, 8, 16), (12, 16), (4, 8, 12)), ((1, 3, 4), (5, 4), (1, 3, 5)),
    ),
    "mm + scaled": (
        lambda x, w, r: torch.add(x @ w * 0.5, r, alpha=3), ((8, 16), (16, 12), (8, 12)), ((2, 3), (3, 4), (2, 4)),
    ),
    "scores + mask": (
        lambda q, k, m: torch.bmm(q, k) / 4 + m, ((3, 8, 16), (3, 16, 9), (8, 9)), ((1, 2, 4), (1, 4, 3), (2, 3)),
    ),
    "scaled by add": (
        lambda q, k, m: torch.add(m, torch.bmm(q, k), alpha=2), ((3, 8, 16), (3, 16, 9), (3, 1, 9)), (),
    ),
}  # fmt: skip


@DTYPES
@pytest.mark.parametrize("name", EPILOGUES)
def test_what_follows_a_product_goes_into_its_call(name: str, dtype: torch.dtype) -> None:
    function, main, other = EPILOGUES[name]
    others = [random(*other, dtype=dtype)] if other else []
    unit = check(function, random(*main, dtype=dtype), "library-addmm-epilogue", *others)
    assert unit.rewrite is not None
    assert (
        sum(
            n.op.split(".")[1] in ("linear", "addmm", "_addmm_activation", "baddbmm")
            for n in unit.rewrite.nodes
        )
        == 1
    )
    assert not any(n.op.split(".")[1] in ("add", "relu", "mul", "div") for n in unit.rewrite.nodes)


def test_tanh_gelu_is_fused_and_exact_gelu_is_not() -> None:
    """On a CPU `_addmm_activation` computes the exact one, so values are compared in half precision alone."""
    args = random((4, 8, 16), (12, 16), (12,), dtype=torch.bfloat16)
    unit = check(
        lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh"), args, "library-addmm-epilogue"
    )
    assert unit.rewrite is not None
    assert any(n.kwargs.get("use_gelu") for n in unit.rewrite.nodes)
    assert write(graph_of(lambda x, w, b: F.gelu(F.linear(x, w, b)), args)) == []


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, w, b: F.linear(x, w, b), ((8, 16), (12, 16), (12,))),  # nothing to take along
        (lambda x, w, r: F.linear(x, w) + r, ((8, 16), (12, 16), (8, 1))),  # broadcasts over columns
        (lambda x, w, b: (y := F.linear(x, w)) + b + y, ((8, 16), (12, 16), (12,))),  # read twice
        (lambda x, w, b: F.relu(F.linear(x, w, b).sum(0)), ((8, 16), (12, 16), (12,))),
        (lambda x, w, b: F.linear(x.transpose(0, 1), w, b).relu(), ((8, 4, 16), (12, 16), (12,))),
    ],
)
def test_what_does_not_fit_one_call_is_left_alone(
    function: Function, shapes: tuple[tuple[int, ...], ...]
) -> None:
    assert write(graph_of(function, random(*shapes))) == []


@DTYPES
def test_a_factor_that_all_batches_share_makes_one_product(dtype: torch.dtype) -> None:
    args, other = random((4, 8, 16), (1, 16, 5), dtype=dtype), random((2, 3, 4), (1, 4, 6), dtype=dtype)
    check(lambda x, w: torch.matmul(x, w), args, "library-batched-as-single", other)
    check(lambda x, w: torch.bmm(x, w[0].expand(len(x), -1, -1)), args, "library-batched-as-single")
    assert write(graph_of(lambda x, w: x @ w, random((4, 8, 16), (16, 5)))) == []
    assert write(graph_of(lambda x, w: x @ w, random((4, 8, 16), (4, 16, 5)))) == []


def test_a_win_is_labelled_library_and_the_least_label_counts() -> None:
    graph = graph_of(bottleneck, bottleneck_args(torch.float32))
    (unit,) = write(graph)

    def kind(*units: Unit) -> str:
        return labels(Candidate(task_id="t", target="cuda", units=units), graph, None, {})[0]

    kernel = unit.model_copy(update={"language": "cuda", "source": "", "technique": "fused", "rewrite": None})
    undeclared = unit.model_copy(update={"technique": "mine"})
    folded = unit.model_copy(update={"technique": "algebraic-fold"})
    assert kind(unit) == kind(kernel, unit) == "library"
    assert kind(kernel) == "kernel"
    assert kind(undeclared) == kind(unit, folded) == "algorithmic"


@pytest.mark.parametrize(
    ("function", "args", "technique"),
    [
        (bottleneck, bottleneck_args(torch.float16, 8, 14, 256, 64), "library-channels-last"),
        (lambda x, w: F.conv2d(x, w), random((4, 64, 28, 28), (64, 64, 3, 3), dtype=torch.float16), "library-channels-last"),
        (
            lambda x, w, b: F.relu(F.linear(x, w, b)),
            random((256, 124), (512, 124), (512,), dtype=torch.float16), "library-addmm-epilogue",
        ),
    ],
)  # fmt: skip
def test_on_a_gpu_half_precision_that_no_kernel_takes_is_proposed(
    function: Function, args: Made, technique: str
) -> None:
    graph = graph_of(function, args)
    facts = replace(FACTS, node_us={n.name: 20.0 for n in graph.nodes}, total_us=20.0 * len(graph.nodes))
    planned = plans(graph, facts)
    proposed = hypotheses(graph, facts, [], 50, planned)
    assert technique in [h.technique for h in proposed]
    assert any(family_of(graph, r, "cuda") is LIBRARY for plan in planned[:3] for r in plan)
    chosen = next(h for h in proposed if h.technique == technique)
    assert [u.family for u in write_units(graph, chosen, 4, facts)] == ["library"]


def test_beside_a_kernel_the_library_is_one_more_technique() -> None:
    graph = graph_of(
        lambda x, w, b: F.relu(F.linear(x, w, b)), random((256, 128), (512, 128), (512,), dtype=torch.float16)
    )
    facts = replace(FACTS, node_us={n.name: 20.0 for n in graph.nodes}, total_us=20.0 * len(graph.nodes))
    proposed = [h.technique for h in hypotheses(graph, facts, [], 50, plans(graph, facts))]
    assert {"gemm-tma-wgmma", "gemm-tma-wgmma-ping-pong", "library-addmm-epilogue"} <= set(proposed)


def test_a_plan_in_channels_last_is_among_the_first_where_only_folding_covers_convolutions() -> None:
    def run(x, w, mean, var, scale, shift, dense, bias):  # type: ignore[no-untyped-def]
        y = F.batch_norm(F.conv2d(x, w, padding=1), mean, var, scale, shift, False, 0.1, 1e-3)
        return F.relu(F.linear(F.relu(y).sum((2, 3)), dense, bias))

    shapes = ((8, 64, 28, 28), (64, 64, 3, 3), *[(64,)] * 4, (10, 64), (10,))
    graph = graph_of(run, random(*shapes, dtype=torch.float16))
    facts = replace(FACTS, node_us={n.name: 20.0 for n in graph.nodes}, total_us=100.0)
    first = [family_of(graph, r, "cuda") for plan in plans(graph, facts)[:3] for r in plan]
    assert {"fold", "library"} <= {f.name for f in first if f is not None}


def test_a_kernel_of_ours_comes_first_where_there_is_one() -> None:
    graph = graph_of(lambda x, w, b: F.relu(F.linear(x, w, b)), random((256, 128), (512, 128), (512,)))
    facts = replace(FACTS, node_us={n.name: 20.0 for n in graph.nodes}, total_us=40.0)
    techniques = [h.technique for h in hypotheses(graph, facts, [], 50, plans(graph, facts))]
    assert "library-addmm-epilogue" in techniques[1:]


def test_there_are_none_on_a_cpu() -> None:
    graph = graph_of(bottleneck, bottleneck_args(torch.float16))
    assert LIBRARY.name not in families_of("cpu")
    planned = plans(graph, replace(FACTS, target="cpu"))
    assert not any(
        h.family == LIBRARY.name for h in hypotheses(graph, replace(FACTS, target="cpu"), [], 50, planned)
    )
