"""On a GPU a sum behind a linear map is taken before it, in ATen: no kernel, fewer operations."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from cuda_bench import FACTS, CudaBench

from warpsmith.agents.expert.planner import plans
from warpsmith.kernels.registry import family_of
from warpsmith.runtime.interpreter import run_graph
from warpsmith.runtime.rewrites import forbidden

CASES: dict[str, Callable[..., torch.Tensor]] = {
    "features": lambda x, w, b: torch.nn.functional.linear(x, w, b).sum(1, keepdim=True) / 3,
    "rows": lambda x, w, b: torch.nn.functional.linear(x, w, b).mean(0),
}


@pytest.mark.parametrize("name", list(CASES))
def test_the_rewrite_is_the_region_with_fewer_operations(emulated: CudaBench, name: str) -> None:
    graph, args = emulated.case(
        CASES[name], lambda: (torch.randn(32, 48), torch.randn(64, 48), torch.randn(64))
    )
    region = next(r for plan in plans(graph, FACTS) for r in plan if "linear" in r.nodes)
    family = family_of(graph, region, "cuda")
    assert family is not None
    assert family.name == "collapse"
    (technique,) = family.techniques(graph, region, FACTS)
    assert technique.name.startswith("algebraic-")
    unit = family.write(graph, region, technique)
    assert unit.language == "aten"
    assert unit.rewrite is not None
    assert not forbidden(unit.rewrite)
    exact = run_graph(
        graph,
        dict(zip((i.name for i in graph.inputs), args, strict=True)),
        float64=True,
        wanted=set(graph.specs),
    )
    made = run_graph(unit.rewrite, {v: exact[v].float() for v in region.inputs})
    for value in region.outputs:
        torch.testing.assert_close(made[value].double(), exact[value], rtol=1e-5, atol=1e-5)
    sizes = [v.spec.numel for n in unit.rewrite.nodes for v in n.outputs if v is not None]
    assert max(sizes) < 32 * 64, "the product itself is never made"
