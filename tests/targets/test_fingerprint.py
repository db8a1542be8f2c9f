"""Fingerprints of built libraries: equal for the same code and constants, however it was written."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cuda_graphs import example

from warpsmith.errors import ToolchainError
from warpsmith.records import Graph, Unit
from warpsmith.targets import cuda_toolkit
from warpsmith.targets.cpu import CpuTarget
from warpsmith.targets.cuda import CudaTarget
from warpsmith.targets.fingerprint import fingerprint

BODY = "for (int64_t i = 0; i < in0_numel; ++i) {{ float {0} = in0[i] * {1}; out0[i] = {2}({0}) + {3}; }}"
FIRST = BODY.format("a", "2.5f", "expf", "0.7f")


@pytest.fixture
def of(target: CpuTarget, graph: Graph, make_unit: Callable[..., Unit]) -> Callable[..., str]:
    def build(body: str, **fields: object) -> str:
        build = target.build(make_unit(body, head="#include <math.h>\n", **fields), graph, "main")
        assert build.ok, build.diagnostics
        return fingerprint(build.library)

    return build


def test_names_comments_and_flags_without_effect_do_not_count(of: Callable[..., str]) -> None:
    first = of(FIRST)
    assert len(first) == 32
    assert of("/* other */ " + BODY.format("b", "2.5f", "expf", "0.7f")) == first
    assert of(FIRST.replace("in0[i] * 2.5f", "2.5f * in0[i]")) == first


def test_a_constant_or_a_function_counts(of: Callable[..., str]) -> None:
    """The disassembly of the first two is the same: the constant lies beside the code."""
    first = of(FIRST)
    assert of(BODY.format("a", "2.5f", "expf", "0.71f")) != first
    assert of(BODY.format("a", "2.5f", "logf", "0.7f")) != first
    assert of(FIRST, flags=("-O1",)) != first


def test_what_cannot_be_read_has_none(tmp_path: Path) -> None:
    assert fingerprint(tmp_path / "missing.so") == ""
    (tmp_path / "text.so").write_text("no library")
    assert fingerprint(tmp_path / "text.so") == ""


@pytest.mark.slow
def test_device_code_and_its_constants_count_and_line_numbers_do_not(tmp_path: Path) -> None:
    try:
        cuda_toolkit.toolkit()
    except ToolchainError as missing:
        pytest.skip(str(missing))
    unit, graph = example("elementwise", [(64, 1000)])
    target = CudaTarget(tmp_path)

    def of(source: str) -> str:
        return fingerprint(target.build(unit.model_copy(update={"source": source}), graph, "main").library)

    first = of(unit.source)
    assert first
    assert of("// moved down\n\n" + unit.source.replace("stride", "step")) == first
    assert of(unit.source.replace("0.70710678f", "0.7072f")) != first
