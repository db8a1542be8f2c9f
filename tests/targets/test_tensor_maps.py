"""Tensor maps: what a unit declares, what `task.h` makes of it, and what the driver is asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cuda_graphs import example, graph_of, region_of, spec

from warpsmith.errors import ToolchainError
from warpsmith.records import TensorSpec
from warpsmith.targets.cpu import CpuTarget
from warpsmith.targets.cuda import CudaTarget
from warpsmith.targets.front_matter import FrontMatterError, parse, unit_from_source
from warpsmith.targets.tensor_maps import (
    TensorMap,
    declare_maps,
    encode_maps,
    parse_tensor_map,
    render_tensor_map,
)

SHAPE = (37, 100)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> CudaTarget:
    try:
        return CudaTarget(tmp_path_factory.mktemp("cache"), arch="sm_90a")
    except ToolchainError as missing:
        pytest.skip(str(missing))


class TestDeclarations:
    @pytest.mark.parametrize(
        "text",
        [
            "A = in0 {BLOCK_M, BLOCK_K} swizzle 128",
            "C = out12 {64}",
            "B = in1 {1, BLOCK_N / 2, 64 * STAGES} swizzle 32",
        ],
    )
    def test_what_is_read_is_written_again(self, text: str) -> None:
        made = parse_tensor_map(text)
        assert made is not None
        assert render_tensor_map(made) == text

    @pytest.mark.parametrize(
        "text",
        [
            "a = in0 {1}", "A = x {1}", "A = in0 {}", "A = in0 {1,}", "A = in0 {f(1)}", "A = in0 {1; 2}", "A = in0 {-1}",
            "A = in0 {1, 2, 3, 4, 5, 6}", "A = in0 {1} swizzle 48", "A = in0 {1} swizzle 128 or", "A in0 {1}",
        ],
    )  # fmt: skip
    def test_what_is_malformed_is_named_with_its_line(self, text: str) -> None:
        with pytest.raises(FrontMatterError, match="line 2: a tensor map reads"):
            parse(f"// warpsmith-unit: 1\n// tensor-map: {text}\n")

    def test_one_name_twice(self) -> None:
        with pytest.raises(FrontMatterError, match="line 3: tensor map A is declared twice"):
            parse("// warpsmith-unit: 1\n// tensor-map: A = in0 {1}\n// tensor-map: A = in1 {1}\n")

    def test_a_buffer_that_is_none_of_the_regions(self) -> None:
        with pytest.raises(ValueError, match="tensor map A: the region has no in1"):
            declare_maps([TensorMap(name="A", buffer="in1", box=("8", "8"))], {"in0": spec(SHAPE)})

    def test_a_unit_in_c(self, tmp_path: Path) -> None:
        graph = graph_of([SHAPE], SHAPE)
        source = '// warpsmith-unit: 1\n// tensor-map: A = in0 {8, 8}\n#include "task.h"\n'
        build = CpuTarget(tmp_path).build(unit_from_source(source, region_of(graph)), graph, "main")
        assert not build.ok
        assert build.diagnostics[0].message == "tensor maps are for units in CUDA"


class TestGeometry:
    def test_sizes_are_counted_from_the_contiguous_dimension_on(self) -> None:
        made = TensorMap(name="A", buffer="in0", box=("BM", "64"), swizzle=128)
        text = encode_maps([made], {"in0": spec((48, 256), "float16")})
        assert "size[] = {256, 48}, stride[] = {512}" in text
        assert "box[] = {(64), (BM)}" in text
        assert "FLOAT16, 2, (void*)in[0]" in text

    def test_first_dimensions_count_as_one(self) -> None:
        made = TensorMap(name="A", buffer="out1", box=("8", "64"))
        text = encode_maps([made], {"out1": spec((3, 5, 16), "float32")})
        assert "size[] = {16, 15}, stride[] = {64}" in text
        assert "2, out[1]" in text

    @pytest.mark.parametrize(
        ("tensor", "box", "unmet"),
        [
            (TensorSpec(shape=(8, 8), dtype="float32", stride=(1, 8)), ("8", "8"), "the last dimension is contiguous"),
            (TensorSpec(shape=(4, 8, 8), dtype="float32", stride=(128, 8, 1)), ("8", "8"), "the first ones are one"),
            (spec((8, 7)), ("8", "8"), "strides are multiples of 16 bytes"),
            (spec((8, 8)), ("8", "2"), "a row of the box is a multiple of 16 bytes"),
            (spec((8, 8)), ("257", "8"), "1 to 256 elements"),
            (spec((8, 64)), ("8", "64"), "at most 128 bytes"),
        ],
    )  # fmt: skip
    def test_what_the_copy_engine_cannot_do_ends_the_build(
        self, target: CudaTarget, tensor: TensorSpec, box: tuple[str, str], unmet: str
    ) -> None:
        graph = graph_of([(8, 8)], (8, 8))
        item = graph.inputs[0].model_copy(update={"spec": tensor})
        graph = graph.model_copy(update={"inputs": (item,)})
        source = f'// warpsmith-unit: 1\n// tensor-map: A = in0 {{{", ".join(box)}}} swizzle 128\n#include "task.h"\n'
        source += "static void unit(const in0_t*, out0_t*, const CUtensorMap*, void*, void*) {}\n"
        build = target.build(unit_from_source(source, region_of(graph), language="cuda"), graph, "main")
        assert not build.ok
        assert unmet in build.diagnostics[0].message


ASK = """
import ctypes, sys
asked = []
kind = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_uint32), *[ctypes.c_int] * 4)
@kind
def encode(made, dtype, rank, address, size, stride, box, step, interleave, swizzle, promotion, fill):
    asked.append((dtype, rank, address, size[:rank], stride[:rank - 1], box[:rank], step[:rank], interleave, swizzle, fill))
    return 1 if len(asked) == 2 else 0  # the second fails: nothing is launched
library = ctypes.CDLL(sys.argv[1])
code = library.warpsmith_run((ctypes.c_void_p * 1)(4096), (ctypes.c_void_p * 1)(8192), None, None, encode)
print(code, asked)
print(library.warpsmith_run((ctypes.c_void_p * 1)(4096), (ctypes.c_void_p * 1)(8192), None, None, None))
"""


def test_the_driver_is_asked_for_each_map_and_a_refusal_is_an_error(
    target: CudaTarget, tmp_path: Path
) -> None:
    unit, graph = example("tensor_map_relu", [SHAPE], ROWS=16)
    build = target.build(unit, graph, "main")
    assert build.ok, build.diagnostics
    runtime = target.toolkit.libraries / "libcudart.so"
    text = f"import ctypes\nctypes.CDLL({str(runtime)!r}, mode=ctypes.RTLD_GLOBAL)\n{ASK}"
    done = subprocess.run([sys.executable, "-c", text, build.library], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    one, two = done.stdout.splitlines()
    code, asked = one.split(" ", 1)
    float32, sizes = 7, ([100, 37], [400], [32, 16], [1, 1])
    assert eval(asked) == [(float32, 2, 4096, *sizes, 0, 0, 0), (float32, 2, 8192, *sizes, 0, 0, 0)]
    invalid = "1"
    assert (code, two) == (invalid, invalid)


def test_a_unit_without_maps_is_what_it_was(target: CudaTarget) -> None:
    unit, graph = example("softmax", [SHAPE])
    assert "CUtensorMap" not in target.unit_header(unit, graph)
