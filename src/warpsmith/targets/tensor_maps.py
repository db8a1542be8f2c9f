"""Tensor maps: what a unit on Hopper declares so that the copy engine moves boxes of a buffer (TMA), and how `task.h` has them.

    // tensor-map: A = in0 {BLOCK_M, BLOCK_K} swizzle 128

In: declarations of the front matter and the specs of the buffers. Out: the part of `task.h` that encodes each map from its buffer's
address and hands all of them to the unit. To encode one is a call of the driver, which a unit may not make: whoever calls the
unit, the judge's runner or the deployed module, brings that function along.

A box has an extent for each dimension, the last one contiguous: numbers, tunables and their products. Where it has fewer than its buffer, the
buffer's first dimensions count as one. What lies beyond a tensor is read as zero and not written.

Source: CUDA driver API, cuTensorMapEncodeTiled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..records import ITEM_BYTES, Record, TensorSpec

MOST = 8  # maps of a unit
# Of the copy engine: dimensions, elements of a box in each, bytes of which strides are multiples.
MAX_RANK, MAX_EXTENT, LINE_BYTES = 5, 256, 16
DATA_TYPE = {
    "float16": "FLOAT16", "bfloat16": "BFLOAT16", "float32": "FLOAT32", "float64": "FLOAT64", "int64": "INT64",
    "int32": "INT32", "int16": "UINT16", "int8": "UINT8", "uint8": "UINT8", "bool": "UINT8", "float8_e4m3fn": "UINT8",
    "float8_e5m2": "UINT8",
}  # fmt: skip

_DECLARATION = re.compile(
    r"(?P<name>[A-Z][A-Z0-9_]*)\s*=\s*(?P<buffer>(?:in|out)\d{1,3})\s*\{(?P<box>[^{}]*)\}(?:\s+swizzle\s+(?P<swizzle>32|64|128))?$"
)
_EXTENT = re.compile(r"(?:[A-Z][A-Z0-9_]*|\d{1,4})(?:\s*[*/]\s*(?:[A-Z][A-Z0-9_]*|\d{1,4}))*$")

_TOP = """
#include <cuda.h>
enum {{ {names} }};  // places in `maps`
"""
_ENCODE = """
typedef CUresult (*ws_encode_t)(
    CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
    const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
static bool ws_encode_maps(ws_encode_t encode, const void* const* in, void* const* out, CUtensorMap* maps) {{
  if (encode == nullptr) return false;
  const cuuint32_t step[] = {{1, 1, 1, 1, 1}};
{maps}  return true;
}}
"""
_MAP = """\
  {{
    const cuuint64_t size[] = {{{size}}}, stride[] = {{{stride}}};
    const cuuint32_t box[] = {{{box}}};
    if (encode(&maps[MAP_{name}], CU_TENSOR_MAP_DATA_TYPE_{type}, {rank}, {address}, size, stride, box, step,
               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_{swizzle}, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
      return false;
  }}
"""


class TensorMap(Record):
    """The boxes in which a buffer is moved. `swizzle`: bytes of the pattern in shared memory, 0 for none."""

    name: str
    buffer: str  # in0, …, out0, …
    box: tuple[str, ...]
    swizzle: int = 0


def parse_tensor_map(text: str) -> TensorMap | None:
    """Read a declaration; None for one that is malformed."""
    match = _DECLARATION.match(text)
    if match is None:
        return None
    box = tuple(" ".join(extent.split()) for extent in match["box"].split(","))
    if len(box) > MAX_RANK or not all(_EXTENT.match(extent) for extent in box):
        return None
    return TensorMap(name=match["name"], buffer=match["buffer"], box=box, swizzle=int(match["swizzle"] or 0))


def render_tensor_map(declared: TensorMap) -> str:
    swizzle = f" swizzle {declared.swizzle}" if declared.swizzle else ""
    return f"{declared.name} = {declared.buffer} {{{', '.join(declared.box)}}}{swizzle}"


def declare_maps(maps: Sequence[TensorMap], specs: Mapping[str, TensorSpec]) -> str:
    """Write what a unit needs to name its maps. Raises ValueError for one that its buffer cannot have."""
    lines = [_TOP.format(names=", ".join(f"MAP_{m.name}" for m in maps) + ", MAPS")]
    for declared in maps:
        spec = specs.get(declared.buffer)
        if spec is None:
            raise ValueError(f"tensor map {declared.name}: the region has no {declared.buffer}")
        if spec.dtype not in DATA_TYPE:
            raise ValueError(f"tensor map {declared.name}: {declared.buffer} is {spec.dtype}")
        lines += [
            f'static_assert({condition}, "{text}");\n' for condition, text in _list_conditions(declared, spec)
        ]
    return "".join(lines)


def encode_maps(maps: Sequence[TensorMap], specs: Mapping[str, TensorSpec]) -> str:
    """Write the function that encodes them."""
    return _ENCODE.format(maps="".join(_write_map(m, specs[m.buffer]) for m in maps))


def _list_conditions(declared: TensorMap, spec: TensorSpec) -> list[tuple[str, str]]:
    """List conditions in C++, each with the message of its assertion: what must hold at these shapes, and at these values of tunables."""
    item, prefix = ITEM_BYTES[spec.dtype], f"tensor map {declared.name}: "
    sizes, strides = _fold(spec, len(declared.box))
    inner = f"({declared.box[-1]}) * {item}"
    conditions = [
        (str(bool(sizes) and strides[-1] == 1).lower(), prefix + "the last dimension is contiguous, and the first ones are one"),
        (str(all(s * item % LINE_BYTES == 0 for s in strides[:-1])).lower(), prefix + f"strides are multiples of {LINE_BYTES} bytes"),
        (f"{inner} % {LINE_BYTES} == 0", prefix + f"a row of the box is a multiple of {LINE_BYTES} bytes"),
        *((f"({e}) >= 1 && ({e}) <= {MAX_EXTENT}", prefix + f"a box has 1 to {MAX_EXTENT} elements a dimension") for e in declared.box),
    ]  # fmt: skip
    if declared.swizzle:
        conditions.append(
            (
                f"{inner} <= {declared.swizzle}",
                prefix + f"a row of the box has at most {declared.swizzle} bytes",
            )
        )
    return conditions


def _write_map(declared: TensorMap, spec: TensorSpec) -> str:
    """The driver counts dimensions from the contiguous one on."""
    sizes, strides = _fold(spec, len(declared.box))
    array, index = (
        ("(void*)in", declared.buffer[2:])
        if declared.buffer.startswith("in")
        else ("out", declared.buffer[3:])
    )
    item = ITEM_BYTES[spec.dtype]
    return _MAP.format(
        name=declared.name, type=DATA_TYPE[spec.dtype], rank=len(declared.box), address=f"{array}[{index}]",
        size=", ".join(f"{n}" for n in reversed(sizes)),
        stride=", ".join(f"{s * item}" for s in reversed(strides[:-1])) or "0",
        box=", ".join(f"({e})" for e in reversed(declared.box)),
        swizzle=f"{declared.swizzle}B" if declared.swizzle else "NONE",
    )  # fmt: skip


def _fold(spec: TensorSpec, rank: int) -> tuple[list[int], list[int]]:
    """Sizes and strides with the first dimensions as one, `rank` in all; empty where that is no tensor of such a rank."""
    sizes, strides = list(spec.shape), list(spec.stride)
    while len(sizes) > rank:
        if sizes[0] != 1 and strides[0] != sizes[1] * strides[1]:
            return [], [0] * rank
        sizes[:2], strides[:2] = [sizes[0] * sizes[1]], [strides[1]]
    return (sizes, strides) if len(sizes) == rank else ([], [0] * rank)
