"""A region of one pointwise op on a float32 tensor, and units for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from warpsmith.records import Graph, GraphInput, GraphOutput, Node, Region, TensorSpec, Unit, Value
from warpsmith.targets.cpu import CpuTarget


@pytest.fixture
def graph() -> Graph:
    spec = TensorSpec(shape=(8, 100), dtype="float32", stride=(100, 1))
    node = Node(
        name="n", op="aten.relu.default", args=({"v": "x"},), kwargs={}, outputs=(Value(name="y", spec=spec),)
    )
    return Graph(
        inputs=(GraphInput(name="x", spec=spec, role="input", target="x"),), nodes=(node,),
        outputs=(GraphOutput(value="y"),), tree="0",
    )  # fmt: skip


@pytest.fixture
def region() -> Region:
    return Region(nodes=("n",), inputs=("x",), outputs=("y",), signature="relu")


@pytest.fixture
def target(tmp_path: Path) -> CpuTarget:
    return CpuTarget(tmp_path / "cache", threads=2)


@pytest.fixture
def make_unit(region: Region) -> Callable[..., Unit]:
    """A unit with `body` as the body of unit(), which starts on line 3 + the lines of `head`."""

    def make(body: str = "", head: str = "", **fields: object) -> Unit:
        signature = "static void unit(const in0_t* in0, out0_t* out0, void* workspace, void*)"
        start = f'{head}#include "task.h"\n{signature} {{\n'
        return Unit.model_validate(
            {"region": region, "language": "c++", "source": f"{start}{body}\n}}\n", **fields}
        )

    return make
