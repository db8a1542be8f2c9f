"""A candidate with one unit and one op that stays in ATen, profiled for real in its own process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from made import HEAD, SIGNATURE

from warpsmith.processes.buffers import Scratch, ValuesFile
from warpsmith.profile import torch_profiler
from warpsmith.records import Task, TaskSource, Unit, Variant
from warpsmith.targets.cpu import CpuTarget
from warpsmith.testing import chain_graph, chain_region


def test_operators_and_units_are_told_apart(target: CpuTarget, scratch: Scratch) -> None:
    graph = chain_graph(("aten.exp.default", "aten.neg.default"), (64, 256))
    task = Task(
        name="chain", source=TaskSource(kind="memory", path="chain"),
        variants=(Variant(name="main", overrides={}, graph=graph),),
    )  # fmt: skip
    region = chain_region(graph, 0, 0)
    # Long beside what the profiler itself takes of an operator's time.
    body = "for (int n = 0; n < 40; n++) for (int64_t i = 0; i < in0_numel; i++) out0[i] = __builtin_expf(in0[i] + n);"
    build = target.build(
        Unit(region=region, language="c++", source=HEAD + SIGNATURE.format(body=body)), graph, "main"
    )
    assert build.ok, build.diagnostics
    values = scratch.new("values")
    ValuesFile(values, [graph.specs["x"]], create=True).array(0)[...] = np.float32(0.5)
    parts = [(region, Path(build.library))]
    found = torch_profiler.observe(task, parts, values, scratch=scratch, threads=1)
    assert found.available, found.reason
    assert "aten::neg us" in found.metrics
    assert "aten::exp us" not in found.metrics
    assert (
        found.metrics["call us"] > 0 < found.metrics["in ATen operators us"]
    )  # a busy machine decides which is more
    assert found.metrics["in units and Python us"] > 0


def test_a_candidate_that_does_not_load_is_no_error(scratch: Scratch, tmp_path: Path) -> None:
    graph = chain_graph(("aten.exp.default",), (4, 8))
    task = Task(
        name="chain", source=TaskSource(kind="memory", path="chain"),
        variants=(Variant(name="main", overrides={}, graph=graph),),
    )  # fmt: skip
    values = scratch.new("values")
    ValuesFile(values, [graph.specs["x"]], create=True)
    parts = [(chain_region(graph, 0, 0), tmp_path / "missing.so")]
    found = torch_profiler.observe(task, parts, values, scratch=scratch, threads=1)
    assert not found.available
    assert "cannot be loaded" in found.reason
