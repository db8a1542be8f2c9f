"""Scales and shifts folded into a linear map: found, stated in ATen, right over shapes, declined where they do not fold."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.agents.compile import CompileAgent
from warpsmith.agents.correctness import CorrectnessAgent
from warpsmith.agents.expert.brain import ExpertBrain, hypotheses, write_units
from warpsmith.agents.expert.planner import plans
from warpsmith.codegen.rewrites import folding
from warpsmith.codegen.rewrites.folding import match_folded_region, match_folding
from warpsmith.facts import Facts
from warpsmith.judge.labels import labels
from warpsmith.kernels.costs import floor_us, predict_us
from warpsmith.kernels.fold.fold import FOLD
from warpsmith.kernels.registry import family_of
from warpsmith.records import Candidate, Graph, Region, Unit
from warpsmith.runtime.interpreter import run_graph
from warpsmith.runtime.rewrites import deployed_graph, forbidden
from warpsmith.search.tuner import HillClimb
from warpsmith.tasks.export import export_program, program_graph
from warpsmith.tasks.regions import make_region

Function = Callable[..., torch.Tensor]
FACTS = Facts(threads=2)
CONVOLUTIONS = (
    (F.conv1d, F.conv2d, F.conv3d), (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d),
)  # fmt: skip


@pytest.fixture(autouse=True)
def whatever_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes here are small."""
    monkeypatch.setattr(folding, "WORTH", 0)


class Plain(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.function(*args)


def graph_of(function: Function, *args: torch.Tensor) -> Graph:
    return program_graph(export_program(Plain(function).eval(), args, {}, "test.py"), "test.py")


def the_unit(graph: Graph) -> tuple[Region, Unit]:
    """Of the only pattern."""
    first = next(n for n in graph.nodes if FOLD.covers(graph, n))
    region = make_region(graph, FOLD.cut(graph, first))
    (technique,) = FOLD.techniques(graph, region, FACTS)
    return region, FOLD.write(graph, region, technique)


def check(graph: Graph, unit: Unit, args: tuple[torch.Tensor, ...]) -> None:
    """The same function in float64, up to its rounding; in float32 the layout, too."""
    assert not forbidden(unit.rewrite)  # type: ignore[arg-type]
    made = deployed_graph(graph, [unit])
    values = {i.name: a for i, a in zip(graph.inputs, args, strict=True)}
    for name, exact in run_graph(graph, values, float64=True).items():
        torch.testing.assert_close(run_graph(made, values, float64=True)[name], exact, rtol=1e-11, atol=1e-11)
        here, there = run_graph(made, values)[name], run_graph(graph, values)[name]
        assert (here.dtype, here.shape, here.stride()) == (there.dtype, there.shape, there.stride())
        torch.testing.assert_close(here, there, rtol=1e-3, atol=1e-3)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Function, tuple[torch.Tensor, ...], int]:
    """A convolution or linear layer and steps behind it, with their tensors and the number of steps."""
    torch.manual_seed(draw(st.integers(0, 999)))
    rank, transposed, bias = draw(st.integers(0, 3)), draw(st.booleans()), draw(st.booleans())
    groups, outs = (draw(st.sampled_from([1, 2, 3])), draw(st.integers(1, 3))) if rank else (1, 5)
    ins, channels = groups * draw(st.integers(1, 3)), groups * outs
    given, made = (draw(st.integers(1, 3)), ins), channels
    if rank == 0:
        x, weight = torch.randn(given), torch.randn(made, ins)
        options: dict[str, Any] = {}
    else:
        taps = [draw(st.integers(1, 3)) for _ in range(rank)]
        x = torch.randn(*given, *[draw(st.integers(5, 7)) for _ in taps])
        shape = (ins, outs) if transposed else (channels, ins // groups)
        weight = torch.randn(*shape, *taps)
        options = {
            "stride": draw(st.integers(1, 2)), "padding": draw(st.integers(0, 1)) if min(taps) > 1 else 0,
            "dilation": draw(st.integers(1, 2)), "groups": groups,
        }  # fmt: skip
    function = F.linear if rank == 0 else CONVOLUTIONS[transposed][rank - 1]
    names = draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=4))
    tensors = [torch.rand(channels) + 0.5 for _ in range(4 * len(names))]

    def run(x: torch.Tensor, weight: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        y = function(x, weight, rest[0] if bias else None, **options)
        for i, name in enumerate(names):
            y = applied(name, y, rest[1 + 4 * i : 5 + 4 * i], rank)
        return y

    return run, (x, weight, torch.randn(channels), *tensors), len(names)


STEPS = ("norm", "plain-norm", "scale", "divide", "twice", "shift", "less", "number", "one")


def applied(name: str, y: torch.Tensor, own: tuple[torch.Tensor, ...], rank: int) -> torch.Tensor:
    a, b, mean, var = own
    column = a.reshape(-1, *[1] * rank)
    if name == "norm":
        return F.batch_norm(y, mean, var, a, b, False, 0.1, 1e-3)
    if name == "plain-norm":
        return F.batch_norm(y, mean, var, None, None, False)
    return {
        "scale": lambda: y * column, "divide": lambda: y / column, "twice": lambda: 2.0 * y,
        "shift": lambda: column + y, "less": lambda: y - column, "number": lambda: y - 0.75,
        "one": lambda: y * a[:1],
    }[name]()  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(cases())
def test_it_is_the_same_function(case: tuple[Function, tuple[torch.Tensor, ...], int]) -> None:
    function, args, steps = case
    graph = graph_of(function, *args)
    found = next((f for n in graph.nodes if (f := match_folding(graph, n)) is not None), None)
    if found is None:  # nothing but numbers on a map without bias: they would need a vector to go into
        values = [s for n in graph.nodes for s in n.args[1:] if isinstance(s, float) and "sub" in n.op]
        assert values or steps == 0
        return
    region, unit = the_unit(graph)
    check(graph, unit, args)
    assert len(region.nodes) == len(found.steps) + 1


def conv_norm(x: Any, w: Any, b: Any, m: Any, v: Any) -> torch.Tensor:
    return F.batch_norm(F.conv2d(x, w, padding=1), m, v, b, b, False)


def arguments(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    shapes = (2, 3, 9, 9), (4, 3, 3, 3), (4,), (4,), (4,)
    return tuple(torch.rand(s, dtype=dtype) + 0.5 for s in shapes)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves(dtype: torch.dtype) -> None:
    graph = graph_of(conv_norm, *arguments(dtype))
    region, unit = the_unit(graph)
    assert {n.output.spec.dtype for n in unit.rewrite.nodes} == {str(dtype)[6:]}  # type: ignore[union-attr]
    assert len(region.nodes) == 2


def test_channels_last_stays_channels_last() -> None:
    x, w, *rest = arguments()
    args = (x.to(memory_format=torch.channels_last), w.to(memory_format=torch.channels_last), *rest)
    graph = graph_of(conv_norm, *args)
    assert not graph.specs[next(iter(graph.returned))].contiguous
    check(graph, the_unit(graph)[1], args)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, b, m, v: F.conv2d(x, w, b).relu() * 2.0,  # not linear in between
        lambda x, w, b, m, v: F.conv2d(x, w, b) * x[:, :1, 1:-1, 1:-1],  # not one number a channel
        lambda x, w, b, m, v: F.conv2d(x, w, b) * v.view(-1, 1, 1, 1)[:2],  # along the batch
        lambda x, w, b, m, v: F.batch_norm(F.conv2d(x, w, b), m, v, b, b, True),  # statistics of this batch
        lambda x, w, b, m, v: (lambda y: (y * 2.0) + y)(F.conv2d(x, w, b)),  # the map's values go elsewhere
        lambda x, w, b, m, v: F.conv2d(x, w) + 1.0,  # no vector to put it into
        lambda x, w, b, m, v: 1.0 / F.conv2d(x, w, b),
        lambda x, w, b, m, v: F.conv2d(x, w, b).double() * 2.0,
    ],
)
def test_declined(function: Function) -> None:
    graph = graph_of(function, *arguments())
    assert not any(FOLD.covers(graph, n) for n in graph.nodes)


def test_little_activation_is_not_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert folding.WORTH > 1
    small, large = ((1, 3, n, n) for n in (3, 64))
    for shape, expected in ((small, False), (large, True)):
        args = (torch.rand(shape), *arguments()[1:])
        graph = graph_of(conv_norm, *args)
        assert any(FOLD.covers(graph, n) for n in graph.nodes) == expected


@pytest.fixture
def chain() -> Graph:
    """Convolution, norm, rectifier."""
    return graph_of(lambda *args: conv_norm(*args).relu(), *arguments())


def test_its_plan_competes_and_its_unit_is_offered(chain: Graph) -> None:
    times = {n.name: us for n, us in zip(chain.nodes, (900.0, 200.0, 100.0), strict=True)}
    facts = Facts(threads=2, node_us=times, total_us=1200.0)
    planned = plans(chain, facts)
    folds = [r for plan in planned for r in plan if match_folded_region(chain, r) is not None]
    assert folds
    assert any(r in folds for plan in planned[:2] for r in plan), "what kernels may save does not hide it"
    assert any(len(r.nodes) == 2 and r not in folds for plan in planned for r in plan), "the epilogue's plan"
    assert all(family_of(chain, r).name == "convolution" for r in folds), "its loops compete, too"  # type: ignore[union-attr]
    offered = [h for h in hypotheses(chain, facts, [], 20, planned) if h.family == "fold"]
    (unit,) = write_units(chain, offered[0], 3, facts)
    assert (unit.language, unit.source) == ("aten", "")
    # Its gain is what remains: the library's map, not the region's limit.
    assert floor_us(chain, folds[0], facts) < 100 < 900 < predict_us(chain, folds[0], facts)
    assert 1.0 < offered[0].expected_gain < 1200 / 900


def test_nothing_about_it_is_tuned_or_reviewed(chain: Graph) -> None:
    """No compiler reads its flags, there are no values to try, and no source to review."""
    _, unit = the_unit(chain)
    assert CompileAgent(ExpertBrain()).flag_variants(unit) == []
    candidate = Candidate(task_id="t", target="cpu", units=(unit,))
    assert CorrectnessAgent(ExpertBrain()).review(candidate) == []
    assert HillClimb().propose(unit, [], 4, Random(1)) == []


def test_label(chain: Graph) -> None:
    candidate = Candidate(task_id="t", target="cpu", units=(the_unit(chain)[1],))
    assert labels(candidate, chain, None, {})[0] == "algorithmic"
