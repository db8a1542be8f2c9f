"""Attention of few queries over many keys, as a served model decodes: split-KV (flash decoding), at the speed of memory.

In: queries (…, H, L, E), keys (…, G, S, E) and values (…, G, S, F) of fp16, bf16 or fp32, any strides, H a multiple of G, with a
mask (bool, or added) of any shape that broadcasts, or a diagonal. Out: `attend`, of which SPLIT blocks share a head of keys, and
`combine`, which adds up what they leave in the workspace. What a mask hides from all queries is not read. Two kernels have the name
`attend`: one of fused multiply-adds for every type, and one of `mma.sync` for fp16 and bf16 of at most 128 features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from ....codegen.cuda.cuda_chain import write_chain, write_operands
from ....codegen.cuda.cuda_source import CudaBody, Launch
from ....codegen.fusion.op_chain import epilogue
from ....codegen.program import Unsupported, operand_names
from ....codegen.templates import render
from ....codegen.writer import Writer
from ....records import Graph, Region
from ..attention_rewrites import Attention
from ..prefix_mask import find_prefix_mask
from .kv_rows import describe_rows

MOST_ROWS = 16  # queries of a head of keys: above, tensor cores
MOST_WIDTH = 256  # features of a key or value
MOST_MMA_WIDTH = 128  # above, keys, values and sums of a warp do not fit into registers
KINDS = {"float16": "f16", "bfloat16": "bf16"}
LEAST_KEYS = 16
DTYPES = ("float16", "bfloat16", "float32")
FLOATS = (*DTYPES, "bool")


def fits_split_kv(graph: Graph, attention: Attention) -> bool:
    """Tell whether few queries share the keys of a head, in types and at sizes that the kernel has."""
    query, key, value = (graph.specs[v] for v in (attention.query, attention.key, attention.value))
    dtypes = {s.dtype for s in (query, key, value, attention.final.output.spec)}
    if len(dtypes) != 1 or not dtypes <= set(DTYPES) or min(query.shape, default=0) < 1:
        return False
    if attention.mask and graph.specs[attention.mask].dtype not in FLOATS:
        return False
    rows = count_rows(graph, attention)
    return (
        rows <= MOST_ROWS
        and max(key.shape[-1], value.shape[-1]) <= MOST_WIDTH
        and key.shape[-2] >= LEAST_KEYS
    )


def count_rows(graph: Graph, attention: Attention) -> int:
    """Queries that read the same keys."""
    query, key = graph.specs[attention.query].shape, graph.specs[attention.key].shape
    return query[-2] * (prod(query[:-2]) // max(1, prod(key[:-2])))


def fits_split_kv_mma(graph: Graph, attention: Attention) -> bool:
    """Tell whether an attention that `fits_split_kv` is one of half precision whose tiles fit into registers."""
    key, value = (graph.specs[v] for v in (attention.key, attention.value))
    return key.dtype in KINDS and max(key.shape[-1], value.shape[-1]) <= MOST_MMA_WIDTH


def write_split_kv(graph: Graph, region: Region, attention: Attention, mma: bool) -> CudaBody:
    """Write the unit's kernels for a region of the attention's node alone. `mma`: on tensor cores."""
    names = operand_names(region)
    query, out = names[attention.query], names[attention.final.output.name]
    key, value = (describe_rows(graph, names, v, query) for v in (attention.key, attention.value))
    mask = _describe_mask(graph, names, attention)
    dims = len(graph.specs[attention.key].shape) - 2
    top, w = Writer(), Writer()
    top.line(f'#include "{"warpsmith_cuda_mma.h" if mma else "warpsmith_cuda.h"}"')
    if mma:
        top.line("#include <cstring>")
        for header in sorted({rows.header for rows in (key, value) if rows.header}):
            top.line(f'#include "{header}"')
    top.line("constexpr int NT = 0;")  # the result is small
    write_operands(top, list(names.values()))
    write_chain(w, epilogue(graph, region, attention.final.output.name, ()), "epilogue", -1)
    common = render(
        "attention/cuda/attention_split_kv_common.cuh",
        key_type=f"{query}_t",
        key_shape=key.shape("KEY"),
        out_shape=f"{out}_shape",
        dims=dims,
        heads=" * ".join(f"{key.shape('KEY')}[{d}]" for d in range(dims)) or "1",
        group=f"{query}_shape[{dims - 1}] / {key.shape('KEY')}[{dims - 1}]" if attention.grouped else "1",
        strides=_write_strides(attention, query, mask, dims),
        causal="false" if attention.limit is None else "true",
        limit=attention.limit or 0,
        bias=mask.bias,
    )
    values: dict[str, object] = {
        "query": query,
        "query_type": f"{query}_t",
        "query_stride": f"{query}_stride",
        "key_stride": key.stride("KEY"),
        "value_stride": value.stride("VALUE"),
        "scale": attention.scale,
    }
    if mma:
        values |= {
            "kind": KINDS[graph.specs[attention.key].dtype],
            "mask_is_bool": "true" if mask.is_bool else "false",
        }
    else:
        values |= {"key": key.operand, "value": value.operand}
    file = "attention/cuda/attention_split_kv_mma.cuh" if mma else "attention/cuda/attention_split_kv.cuh"
    chunks = render("attention/cuda/attention_row_chunks.cuh") if mma else ""
    rows = (chunks, key.write("Key", "DEPTH"), value.write("Value", "WIDTH_OUT")) if mma else ()
    for line in "".join(
        (key.constants("KEY"), value.constants("VALUE"), common, *rows, render(file, **values))
    ).splitlines():
        w.line(line)
    launches = (
        Launch("attend", "HEADS_KV * SPLIT * ROW_BLOCKS", "BLOCK", extra="(float*)workspace", struct=True),
        Launch(
            "combine", "(SPLIT > 1 ? ws::ceil_div(HEADS_KV * ALL_ROWS, (int64_t)4) : 0)", "128",
            extra="(const float*)workspace", struct=True,
        ),
    )  # fmt: skip
    queries = " * ".join(f"{out}_shape[{d}]" for d in range(dims + 1))
    return CudaBody(
        top, w, launches, f"SPLIT > 1 ? 4 * (uint64_t)SPLIT * {queries} * ({out}_shape[{dims + 1}] + 2) : 16"
    )


@dataclass(frozen=True)
class _Mask:
    """What hides keys, or is added to scores. `strides`: of each of its dimensions, as C++, the last ones those of queries and keys; `bias`:
    a statement that returns what is added, in units of log2."""

    strides: tuple[str, ...] = ()
    bias: str = "return 0.0f;"
    is_bool: bool = True


def _describe_mask(graph: Graph, names: Mapping[str, str], attention: Attention) -> _Mask:
    element = "mask + row / QUERIES * MASK_GROUP + row % QUERIES * MASK_QUERY"
    if not attention.mask:
        return _Mask()
    if attention.mask in names:
        name, spec = names[attention.mask], graph.specs[attention.mask]
        strides = tuple(f"{name}_shape[{d}] == 1 ? 0 : {name}_stride[{d}]" for d in range(len(spec.shape)))
        value = f"o.{name}[{element} + key * MASK_KEY]"
        if spec.dtype == "bool":
            return _Mask(strides, f"return {value} ? 0.0f : -INFINITY;")
        return _Mask(strides, f"return ws::load_as({value}) * LOG2_E;", False)
    prefix = find_prefix_mask(graph, attention.mask)
    if prefix is None:
        raise Unsupported("a mask that no operand holds")
    name = names[prefix.lengths]
    strides = tuple(
        "0" if d is None else f"{name}_shape[{d}] == 1 ? 0 : {name}_stride[{d}]" for d in prefix.dims
    )
    return _Mask(strides, f"return key < (int64_t)o.{name}[{element}] + {prefix.extra} ? 0.0f : -INFINITY;")


def find_mask_nodes(graph: Graph, attention: Attention) -> tuple[str, ...]:
    """The nodes that make the mask out of lengths; none where it is another one."""
    prefix = find_prefix_mask(graph, attention.mask) if attention.mask else None
    return () if prefix is None else prefix.nodes


def _write_strides(attention: Attention, query: str, mask: _Mask, dims: int) -> str:
    """Strides by head of keys: heads of queries that share it are GROUP apart; a mask's dimension of size 1 has stride 0."""
    queries = [f"{query}_stride[{d}]{' * GROUP' * (d == dims - 1)}" for d in range(dims)]
    masks = [*["0"] * (dims + 2 - len(mask.strides)), *mask.strides]
    heads = [f"({text}){' * GROUP' * (d == dims - 1)}" for d, text in enumerate(masks[:dims])]
    group = f"({masks[dims - 1]})" if dims else "0"
    by_row = "true" if attention.limit is not None else f"MASK_GROUP != 0 || ({masks[dims]}) != 0"
    return "\n".join((
        f"static constexpr __constant__ int64_t QUERY_STRIDE[] = {{{', '.join([*queries, '0'])}}};",
        f"static constexpr __constant__ int64_t MASK_STRIDE[] = {{{', '.join([*heads, '0'])}}};",
        f"constexpr int64_t MASK_GROUP = {group}, MASK_QUERY = {masks[dims]}, MASK_KEY = {masks[dims + 1]};",
        f"constexpr bool MASK_BY_ROW = {by_row};",
    ))  # fmt: skip
