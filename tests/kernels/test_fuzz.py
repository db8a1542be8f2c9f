"""A few seeds of the differential fuzzer, and that it finds what is wrong; `benchmarks/fuzz.py` runs hundreds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from warpsmith.codegen.rewrites import folding
from warpsmith.kernels.fold.fold import FOLD
from warpsmith.runtime.interpreter import run_graph

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_modules_are_computed_right(bench: Any, seed: int) -> None:
    from fuzz import try_seed

    assert try_seed(seed, bench.target, Counter()) == []


def test_a_seed_makes_the_same_module_again() -> None:
    from fuzz_modules import make

    (first, inputs), (again, others) = make(3), make(3)
    assert first.describe() == again.describe() != make(4)[0].describe()
    assert all(torch.equal(a, b) for a, b in zip(inputs, others, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(first(*inputs), again(*inputs), strict=True))


def test_a_unit_without_code_is_compared_too(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from fuzz import compare

    monkeypatch.setattr(folding, "WORTH", 0)
    x, w, s = torch.randn(9, 5), torch.randn(4, 5), torch.rand(4) + 0.5
    graph = bench.graph(lambda x, w, s: torch.nn.functional.linear(x, w) * s, x, w, s)
    region = bench.whole(graph)
    unit = FOLD.write(graph, region, FOLD.techniques(graph, region, bench.facts)[0])
    natively = dict(zip((i.name for i in graph.inputs), (x, w, s), strict=True))
    natively |= run_graph(graph, natively)
    assert compare(unit, graph, natively, bench.target) == ""
    first, *others = unit.rewrite.nodes
    wrong = unit.rewrite.model_copy(
        update={
            "nodes": (
                first,
                *[n.model_copy(update={"op": "aten.add.Tensor"}) if "mul" in n.op else n for n in others],
            )
        }
    )
    assert "off by" in compare(unit.model_copy(update={"rewrite": wrong}), graph, natively, bench.target)


def test_a_wrong_unit_is_a_finding(bench: Any) -> None:
    from fuzz import compare

    x = torch.randn(20, 40)
    graph = bench.graph(lambda x: torch.softmax(x, 1), x)
    (_, unit), *_ = bench.techniques(graph, bench.whole(graph))
    natively = {graph.inputs[0].name: x, unit.region.outputs[0]: torch.softmax(x, 1)}
    assert compare(unit, graph, natively, bench.target) == ""
    wrong = unit.model_copy(update={"source": unit.source.replace("static void unit(", "static void other(")})
    assert compare(wrong, graph, natively, bench.target)
    slack = unit.source.replace("ws::exp_nonpos(", "0.999f + 0.0f * ws::exp_nonpos(")
    assert slack != unit.source
    assert "off by" in compare(unit.model_copy(update={"source": slack}), graph, natively, bench.target)
