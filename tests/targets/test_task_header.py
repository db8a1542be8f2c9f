"""task.h: right constants, compiles on its own as strict C++17, and calls the unit with typed pointers."""

from __future__ import annotations

import subprocess
from math import prod
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warpsmith import machine
from warpsmith.records import TensorSpec
from warpsmith.targets.task_header import CPP_TYPE, cuda_task_header, requirements, task_header


def spec(shape: tuple[int, ...], dtype: str = "float32") -> TensorSpec:
    stride = tuple(prod(max(n, 1) for n in shape[i + 1 :]) for i in range(len(shape)))  # as torch has it
    return TensorSpec(shape=shape, dtype=dtype, stride=stride)


def compile_text(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "x.cpp").write_text(text)
    command = [machine.find_compiler(), "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "x.cpp"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_every_dtype_compiles_without_a_warning(tmp_path: Path) -> None:
    inputs = [spec((2, 3), dtype) for dtype in CPP_TYPE]
    outputs = [spec((), "float32"), spec((0, 4), "bfloat16")]
    (tmp_path / "task.h").write_text(task_header(inputs, outputs, 3))
    names = ", ".join(
        [f"const in{i}_t*" for i in range(len(inputs))] + ["out0_t*", "out1_t*", "void*", "void*"]
    )
    checks = "static_assert(THREADS == 3 && in0_shape[1] == 3 && in0_stride[0] == 3 && in0_rank == 2);\n"
    checks += "static_assert(out0_rank == 0 && out0_numel == 1 && out1_numel == 0 && sizeof(out1_t) == 2);\n"
    done = compile_text(tmp_path, f'#include "task.h"\n{checks}static void unit({names}) {{}}\n')
    assert done.returncode == 0, done.stderr


def test_workspace_size_may_use_shapes(tmp_path: Path) -> None:
    (tmp_path / "task.h").write_text(task_header([spec((4, 5))], [spec((4,))], 1))
    text = '#define WORKSPACE_BYTES (in0_shape[0] * 64)\n#include "task.h"\n'
    text += "static void unit(const in0_t*, out0_t*, void*, void*) {}\n"
    done = compile_text(tmp_path, text)
    assert done.returncode == 0, done.stderr


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="in0 is complex64"):
        task_header([spec((2,), "complex64")], [spec((2,))], 1)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.integers(0, 2**40), max_size=5).map(tuple), min_size=1, max_size=6))
def test_shapes_reach_the_compiler_unchanged(tmp_path: Path, shapes: list[tuple[int, ...]]) -> None:
    specs = [spec(s) for s in shapes if prod(max(n, 1) for n in s) < 2**62] or [spec((1,))]
    (tmp_path / "task.h").write_text(task_header(specs, [spec((1,))], 1))
    facts = [f"in{i}_rank == {len(s.shape)} && in{i}_numel == {s.numel}" for i, s in enumerate(specs)]
    facts += [f"in{i}_shape[{d}] == {n}" for i, s in enumerate(specs) for d, n in enumerate(s.shape)]
    asserts = "".join(f"static_assert({fact});\n" for fact in facts)
    parameters = ", ".join(f"const in{i}_t*" for i in range(len(specs)))
    done = compile_text(
        tmp_path, f'#include "task.h"\n{asserts}static void unit({parameters}, out0_t*, void*, void*) {{}}\n'
    )
    assert done.returncode == 0, done.stderr


def test_requirements_are_assertions() -> None:
    assert requirements(["in0_shape[0] % 4 == 0"]).startswith("static_assert(in0_shape[0] % 4 == 0,")


def test_cuda_half_types_bring_their_headers_and_shapes_live_in_constant_memory() -> None:
    text = cuda_task_header([spec((2, 3), "bfloat16")], [spec((2,), "float32")])
    assert "#include <cuda_bf16.h>" in text
    assert "cuda_fp16.h" not in text
    assert "typedef __nv_bfloat16 in0_t;" in text
    assert "static constexpr __constant__ int64_t in0_shape[] = {2, 3};" in text
    assert "int warpsmith_run(" in text
    with pytest.raises(ValueError, match="out0 is complex64"):
        cuda_task_header([], [spec((2,), "complex64")])


def test_float8_types_are_structs_of_a_byte_where_they_are_used() -> None:
    text = task_header([spec((2, 3), "float8_e4m3fn")], [spec((2,), "float8_e5m2")], threads=1)
    assert "struct ws_e4m3 { uint8_t bits; };" in text
    assert "typedef ws_e4m3 in0_t;" in text
    assert "typedef ws_e5m2 out0_t;" in text
    assert "ws_e4m3" not in task_header([spec((2, 3), "int8")], [spec((2,), "bfloat16")], threads=1)


def test_cuda_float8_types_bring_their_header_once() -> None:
    text = cuda_task_header([spec((2, 3), "float8_e4m3fn")], [spec((2,), "float8_e5m2")])
    assert text.count("#include <cuda_fp8.h>") == 1
    assert "typedef __nv_fp8_e4m3 in0_t;" in text
    assert "typedef __nv_fp8_e5m2 out0_t;" in text
