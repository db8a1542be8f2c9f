"""Generates `task.h`: a region's typed signature and its shapes as constants, for one variant.

In: the specs of the region's inputs and outputs, in ABI order, the number of threads, and what the unit
requires. Out: C++17 (or CUDA C++17) text that defines the two exported symbols `warpsmith_run` and
`warpsmith_workspace_bytes` and declares `unit`, which the source that includes it defines. It pulls in
<stddef.h> and <stdint.h> only, on CUDA the headers of the half types too where they are used: standard C++
headers would cost more than the rest of a compilation. A unit that declares tensor maps is given them before its workspace: `warpsmith_run`
encodes them, with the driver's function that it is called with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..records import Graph, Region, TensorSpec
from .tensor_maps import TensorMap, declare_maps, encode_maps

CPP_TYPE = {
    "float64": "double", "float32": "float", "float16": "ws_f16", "bfloat16": "ws_bf16", "int64": "int64_t",
    "int32": "int32_t", "int16": "int16_t", "int8": "int8_t", "uint8": "uint8_t", "bool": "bool",
    "float8_e4m3fn": "ws_e4m3", "float8_e5m2": "ws_e5m2",
}  # fmt: skip
CUDA_TYPE = {
    **CPP_TYPE, "float16": "__half", "bfloat16": "__nv_bfloat16", "float8_e4m3fn": "__nv_fp8_e4m3", "float8_e5m2": "__nv_fp8_e5m2",
}  # fmt: skip
CUDA_HEADER = {
    "float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h", "float8_e4m3fn": "cuda_fp8.h", "float8_e5m2": "cuda_fp8.h",
}  # fmt: skip

_TOP = """\
// Generated for one region at one variant's shapes. Strides are in elements.
#ifndef WARPSMITH_TASK_H
#define WARPSMITH_TASK_H
#include <stddef.h>
#include <stdint.h>

#ifndef THREADS
#define THREADS {threads}
#endif
#ifndef WORKSPACE_BYTES
#define WORKSPACE_BYTES 0
#endif

#ifndef WARPSMITH_HALF_TYPES
#define WARPSMITH_HALF_TYPES
struct ws_bf16 {{ uint16_t bits; }};  // the upper half of a float
struct ws_f16 {{ uint16_t bits; }};   // IEEE binary16
#endif

"""
_FLOAT8 = """\
#ifndef WARPSMITH_FLOAT8_TYPES
#define WARPSMITH_FLOAT8_TYPES
struct ws_e4m3 { uint8_t bits; };  // 4 bits of exponent, 3 of mantissa, no infinities
struct ws_e5m2 { uint8_t bits; };  // the upper byte of a binary16
#endif

"""

_BOTTOM = """
static void unit({parameters}, void* workspace, void* stream);

#if defined(__GNUC__)
#define WARPSMITH_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define WARPSMITH_EXPORT extern "C"
#endif
WARPSMITH_EXPORT uint64_t warpsmith_workspace_bytes() {{ return (uint64_t)(WORKSPACE_BYTES); }}
WARPSMITH_EXPORT void warpsmith_run(const void* const* in, void* const* out, void* workspace, void* stream) {{
  (void)in;
  unit({arguments}, workspace, stream);
}}
#endif
"""


# What nvcc's own registration code wants from the C library's start files, which a unit is linked without;
# the library is never unloaded (-z nodelete), so that there is nothing to do at exit.
_CUDA_TOP = """\
// Generated for one region at one variant's shapes. Strides are in elements.
#ifndef WARPSMITH_TASK_H
#define WARPSMITH_TASK_H
#include <stddef.h>
#include <stdint.h>
{includes}
#ifndef WORKSPACE_BYTES
#define WORKSPACE_BYTES 0
#endif

extern "C" __attribute__((visibility("hidden"))) int atexit(void (*)(void)) noexcept {{ return 0; }}

"""

_CUDA_BOTTOM = """
static void unit({parameters}, {maps}void* workspace, void* stream);
{encode}
#define WARPSMITH_EXPORT extern "C" __attribute__((visibility("default")))
WARPSMITH_EXPORT uint64_t warpsmith_workspace_bytes() {{ return (uint64_t)(WORKSPACE_BYTES); }}
WARPSMITH_EXPORT int warpsmith_run(const void* const* in, void* const* out, void* workspace, void* stream{encoder}) {{
  {begin}
  unit({arguments}, {given}workspace, stream);
  return (int)cudaGetLastError();
}}
#endif
"""
_WITHOUT_MAPS = {"maps": "", "encode": "", "encoder": "", "begin": "(void)in;", "given": ""}
_WITH_MAPS = {
    "maps": "const CUtensorMap* maps, ", "encoder": ", ws_encode_t encode", "given": "maps, ",
    "begin": "CUtensorMap maps[MAPS];\n  if (!ws_encode_maps(encode, in, out, maps)) return (int)cudaErrorInvalidValue;",
}  # fmt: skip


def task_header(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], threads: int) -> str:
    """Write the text of `task.h`. Raises ValueError for a dtype that has no C++ type here (complex numbers)."""
    constants = "".join(_constants(name, spec, CPP_TYPE, "") for name, spec in _name_tensors(inputs, outputs))
    float8 = _FLOAT8 if any(s.dtype.startswith("float8") for s in (*inputs, *outputs)) else ""
    return _TOP.format(threads=threads) + float8 + constants + _bottom(_BOTTOM, inputs, outputs)


def cuda_task_header(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], maps: Sequence[TensorMap] = ()
) -> str:
    """Write the text of `task.h` for nvcc. Raises ValueError as `task_header`, and for tensor maps that the buffers cannot have.

    Shapes and strides are in constant memory, too, so that device code may index them by a variable."""
    used = {spec.dtype for spec in (*inputs, *outputs)}
    headers = sorted({CUDA_HEADER[d] for d in used & set(CUDA_HEADER)})
    includes = "".join(f"#include <{header}>\n" for header in headers)
    specs = _name_tensors(inputs, outputs)
    constants = "".join(_constants(name, spec, CUDA_TYPE, "__constant__ ") for name, spec in specs)
    top = _CUDA_TOP.format(includes=includes) + constants
    if not maps:
        return top + _bottom(_CUDA_BOTTOM, inputs, outputs, **_WITHOUT_MAPS)
    buffers = dict(specs)
    encode = encode_maps(maps, buffers)
    return (
        top
        + declare_maps(maps, buffers)
        + _bottom(_CUDA_BOTTOM, inputs, outputs, encode=encode, **_WITH_MAPS)
    )


def region_header(graph: Graph, region: Region, threads: int) -> str:
    return task_header(*_specs(graph, region), threads)


def cuda_region_header(graph: Graph, region: Region, maps: Sequence[TensorMap] = ()) -> str:
    return cuda_task_header(*_specs(graph, region), maps)


def requirements(requires: Sequence[str]) -> str:
    """Write the assertions that go after the shapes; the message starts with "requires:" for `diagnostics` to
    recognise."""
    lines = [f'static_assert({text}, "requires: {text}");\n' for text in requires]
    return "".join(lines)


def _specs(graph: Graph, region: Region) -> tuple[list[TensorSpec], list[TensorSpec]]:
    specs = graph.specs
    return [specs[n] for n in region.inputs], [specs[n] for n in region.outputs]


def _name_tensors(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> list[tuple[str, TensorSpec]]:
    return [(f"in{i}", s) for i, s in enumerate(inputs)] + [(f"out{i}", s) for i, s in enumerate(outputs)]


def _bottom(template: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], **texts: str) -> str:
    names = [name for name, _ in _name_tensors(inputs, outputs)]
    parameters = [f"{'const ' if name.startswith('in') else ''}{name}_t* {name}" for name in names]
    casts = [f"(const in{i}_t*)in[{i}]" for i in range(len(inputs))]
    casts += [f"(out{i}_t*)out[{i}]" for i in range(len(outputs))]
    return template.format(parameters=", ".join(parameters), arguments=", ".join(casts), **texts)


def _constants(name: str, spec: TensorSpec, types: Mapping[str, str], memory: str) -> str:
    if spec.dtype not in types:
        raise ValueError(f"{name} is {spec.dtype}, which a kernel cannot take")
    shape, stride = spec.shape or (1,), spec.stride or (1,)  # C++ has no arrays of length zero
    return (
        f"typedef {types[spec.dtype]} {name}_t;\n"
        f"static constexpr int64_t {name}_rank = {len(spec.shape)};\n"
        f"static constexpr {memory}int64_t {name}_shape[] = {{{', '.join(map(str, shape))}}};\n"
        f"static constexpr {memory}int64_t {name}_stride[] = {{{', '.join(map(str, stride))}}};\n"
        f"static constexpr int64_t {name}_numel = {spec.numel};\n"
    )
