"""Other calls of the library on a GPU, in half precision: the same values in the graph's own layout."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from test_library import EPILOGUES, Function, Made, bottleneck, bottleneck_args, graph_of, random, write

from warpsmith.judge.correctness.stepping import check_layout
from warpsmith.runtime.deployed import deploy
from warpsmith.runtime.interpreter import run_graph
from warpsmith.runtime.rewrites import deployed_graph

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]
HALF = torch.float16


def check(function: Function, args: Made) -> None:
    graph = graph_of(function, args)
    (unit,) = write(graph)
    values = {i.name: a.cuda() for i, a in zip(graph.inputs, args, strict=True)}
    before, after = run_graph(graph, values), run_graph(deployed_graph(graph, [unit]), values)
    for name, expected in before.items():
        error = 1e-2 * float(expected.abs().max())
        torch.testing.assert_close(after[name], expected, rtol=1e-2, atol=error)
    check_layout(after, graph.specs)
    results = deploy(deployed_graph(graph, [unit]), [], "cuda")([values[i.name] for i in graph.inputs])
    assert len(results) == len(graph.outputs)


def test_a_bottleneck_in_channels_last() -> None:
    check(bottleneck, bottleneck_args(HALF, 8, 14, 256, 64))


@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues(name: str) -> None:
    function, shapes, _ = EPILOGUES[name]
    check(function, random(*shapes, dtype=HALF))


def test_tanh_gelu_is_the_epilogues_own() -> None:
    args = random((4, 256, 512), (1024, 512), (1024,), dtype=HALF)
    check(lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh"), args)


def test_one_product_of_all_batches() -> None:
    check(lambda x, w: x @ w, random((8, 128, 256), (1, 256, 64), dtype=HALF))
