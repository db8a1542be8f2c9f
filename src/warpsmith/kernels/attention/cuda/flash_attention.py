"""Attention of many queries in half precision, as a served model reads a prompt: FlashAttention on tensor cores, by `mma.sync` or by `wgmma`.

In: queries, keys and values of fp16 or bf16 with at most 256 features a head, any strides, the library's node or a product, a map of the scores with a
softmax, and a product. Out: one kernel `attend`, of which a block has some rows of one head. Masks are added where scores are in registers; a diagonal or
a window, where the graph spells one out, also says which tiles of keys are not read.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....codegen.cuda.cuda_chain import write_chain, write_operands
from ....codegen.cuda.cuda_source import CudaBody, Launch
from ....codegen.fusion.broadcast_chains import lane_band_step, lane_position_step
from ....codegen.program import Expr, Kind, Unsupported
from ....codegen.templates import render
from ....codegen.writer import Writer
from ....errors import TaskError
from ....records import Graph, Node, Region, TensorSpec
from ....tasks.regions import make_region
from ..attention_heads import Parts, final_sizes, head_start, raw_sizes, score_sizes, split_head
from ..attention_parts import build_parts, check_band, list_nodes_behind
from ..attention_pattern import attention_at
from ..attention_rewrites import Attention, with_diagonals, with_positions
from ..mask_band import affine_of, band_of

KINDS = {"float16": "f16", "bfloat16": "bf16"}
MOST_WIDTH = 256  # features of a head
FEW_ROWS = 16  # queries of a head of keys that one tile of the instruction holds: `split_kv` has these
COPIED_AT_ONCE = 8  # halves
SHARED_VALUES = (
    "element", "kind", "heads", "group", "rows", "keys", "width_out", "causal", "limit", "windowed", "floor", "mapped", "zero_without_keys",
    "query_layout", "key_layout", "value_layout",
)  # fmt: skip
HEAD_VALUES = ("scale", "indices", "query_start", "key_start", "value_start", "score_index", "out_index")
STRIDES = ("query_strides", "key_strides", "value_strides")
ZEROS = ("0.0f", "-0.0f", "1.0f / 0.0f")  # scales that leave nothing to compare


def flash_attention_at(graph: Graph, node: Node) -> Attention | None:
    """The attention that a node is the first or the last product of, where the kernel has its types and sizes."""
    attention = attention_at(graph, node)
    if (
        attention is None
        or not attention.softmax
        or attention.scale in ZEROS
        or attention.raw[-2] <= FEW_ROWS
    ):
        return None
    query, key, value = (graph.specs[v] for v in (attention.query, attention.key, attention.value))
    dtypes = {s.dtype for s in (query, key, value, attention.final.output.spec)}
    if len(dtypes) != 1 or not dtypes <= set(KINDS):
        return None
    if (
        min((*query.shape, *key.shape, *value.shape)) < 1
        or max(query.shape[-1], value.shape[-1]) > MOST_WIDTH
    ):
        return None
    return with_positions(graph, with_diagonals(graph, attention))


def find_flash_attention(graph: Graph, region: Region) -> Attention | None:
    """The attention that a region holds whole; None where it cannot be written."""
    members = set(region.nodes)
    for name in reversed(region.nodes):
        attention = flash_attention_at(graph, graph.by_name[name])
        if attention is None or not set(attention.nodes) <= members:
            continue
        try:
            write_flash(graph, region, attention)
        except (TaskError, Unsupported):
            return None
        return attention
    return None


def cut_flash(graph: Graph, attention: Attention, taken: set[str], fuse: bool) -> Region | None:
    """The region of an attention's nodes, with what follows it where that can be stored in its place."""
    if set(attention.nodes) & taken:
        return None
    for nodes in list_nodes_behind(graph, attention, {*taken, *attention.nodes}) if fuse else [()]:
        try:
            region = make_region(graph, [*attention.nodes, *nodes])
            write_flash(graph, region, attention)
        except (TaskError, Unsupported):
            continue
        return region
    return None


def list_weight_parts(graph: Graph, attention: Attention) -> tuple[int, ...]:
    """List how many halves a weight may be the sum of, the first choice first. bfloat16 rounds the weights of rows that see few keys by more than the
    error of most elements, and a graph that spells attention out rounds other ones.
    """
    if is_reference_single(graph, attention):
        return (2,)
    return (2, 1) if not attention.library and graph.specs[attention.query].dtype == "bfloat16" else (1, 2)


def is_reference_single(graph: Graph, attention: Attention) -> bool:
    """Tell whether torch's attention falls back to products in float32, as it does where a mask is not dense along the keys, or there is a mask and
    rows of a head are not whole copies of 16 bytes (`sdp_utils.cpp`): weights rounded to half are then beyond its error.
    """
    if not attention.library or not attention.mask:
        return False
    widths = (graph.specs[v].shape[-1] for v in (attention.query, attention.value))
    return graph.specs[attention.mask].stride[-1] != 1 or any(w % 8 for w in widths)


def fits_wgmma(graph: Graph, attention: Attention) -> bool:
    """Tell whether rows of queries, keys and values begin at multiples of 16 bytes: others are copied piece by piece, which the kernel has for other shapes."""
    features = (
        (attention.query, -1), (attention.key, -2 if attention.transposed else -1), (attention.value, -1),
    )  # fmt: skip
    return all(_is_copied_at_once(graph.specs[value], axis) for value, axis in features)


def _is_copied_at_once(spec: TensorSpec, feature: int) -> bool:
    """Tell whether all rows of features begin at multiples of 16 bytes, and are whole numbers of them."""
    feature %= len(spec.shape)
    axes = enumerate(zip(spec.shape, spec.stride, strict=True))
    return (
        spec.stride[feature] == 1
        and spec.shape[feature] % COPIED_AT_ONCE == 0
        and all(n == 1 or stride % COPIED_AT_ONCE == 0 for axis, (n, stride) in axes if axis != feature)
    )


def write_flash(graph: Graph, region: Region, attention: Attention, wgmma: bool = False) -> CudaBody:
    """Write the unit's kernel, by `mma.sync` or by `wgmma`. Raises Unsupported."""
    parts = build_parts(graph, region, attention, _compute)
    top, w = Writer(), Writer()
    top.line(f'#include "{"warpsmith_cuda_warpgroup.h" if wgmma else "warpsmith_cuda_mma.h"}"')
    top.line("constexpr int NT = 0;")  # the next operation reads the result
    write_operands(top, list(parts.names.values()))
    scores = score_sizes(parts) if parts.scores is not None else []
    out_rank, score_rank = len(final_sizes(parts)) + 2, len(scores) + 2
    w.line(
        f"constexpr int64_t WIDTH = {parts.names[parts.query]}_shape[{len(graph.specs[parts.query].shape) - 1}];"
    )
    w.line(f"constexpr int SCORE_RANK = {score_rank}, OUT_RANK = {out_rank};")
    if parts.scores is not None:
        write_chain(w, parts.scores, "map_score", -1)
    else:
        w.line("template <int V>")
        w.line(
            "__device__ __forceinline__ ws::Pack<float, V> map_score(const Operands&, const ws::Pack<float, V>& acc, const int64_t*) { return acc; }"
        )
    write_chain(w, parts.epilogue, "epilogue", -1)
    text = _render_kernel(parts, attention, scores, wgmma)
    for line in text.splitlines():
        w.line(line)
    launch = Launch("attend", "HEADS * ROW_BLOCKS", "THREADS", "SHARED", struct=True)
    return CudaBody(top, w, (launch,))


def _render_kernel(parts: Parts, attention: Attention, scores: Sequence[str], wgmma: bool) -> str:
    """The kernel's text. Templates take what they name of the values."""
    values = _values(parts, attention, scores)
    names = {key: values[key] for key in SHARED_VALUES}
    common = render("attention/cuda/attention_flash_common.cuh", **names)
    head = render("attention/cuda/attention_flash_head.cuh", **{key: values[key] for key in HEAD_VALUES})
    own = {key: values[key] for key in (*STRIDES, *(() if wgmma else ("kind",)))}
    file = "attention/cuda/attention_flash_wgmma.cuh" if wgmma else "attention/cuda/attention_flash_mma.cuh"
    return render(file, common=common, head=head, **own)


def _values(p: Parts, attention: Attention, scores: Sequence[str]) -> dict[str, object]:
    query, key, value = (p.names[v] for v in (p.query, p.key, p.value))
    ranks = [len(p.graph.specs[v].shape) for v in (p.query, p.key, p.value)]
    key_row, key_feature = (ranks[1] - 1, ranks[1] - 2) if p.transposed else (ranks[1] - 2, ranks[1] - 1)
    heads = raw_sizes(p)
    return {
        "element": f"{query}_t",
        "kind": KINDS[p.graph.specs[p.query].dtype],
        "heads": " * ".join(f"({s})" for s in heads) or "1",
        "group": f"({query}_shape[{ranks[0] - 3}] / {key}_shape[{ranks[1] - 3}])" if p.grouped else "1",
        "rows": f"{query}_shape[{ranks[0] - 2}]",
        "keys": f"{key}_shape[{key_row}]",
        "width_out": f"{value}_shape[{ranks[2] - 1}]",
        "causal": "false" if attention.limit is None else "true",
        "limit": attention.limit or 0,
        "windowed": "false" if attention.floor is None else "true",
        "floor": attention.floor or 0,
        "mapped": "false" if p.scores is None else "true",
        "scale": f"({attention.scale})",
        "zero_without_keys": "true" if p.library else "false",
        "query_layout": _layout(query, ranks[0], ranks[0] - 1),
        "key_layout": _layout(key, ranks[1], key_feature),
        "value_layout": _layout(value, ranks[2], ranks[2] - 1),
        "query_strides": f"{query}_stride[{ranks[0] - 2}], {query}_stride[{ranks[0] - 1}]",
        "key_strides": f"{key}_stride[{key_row}], {key}_stride[{key_feature}]",
        "value_strides": f"{value}_stride[{ranks[2] - 2}], {value}_stride[{ranks[2] - 1}]",
        "indices": _write_indices(p, scores),
        "query_start": f"o.{head_start(p, p.query, 'h', len(p.raw))}",
        "key_start": f"o.{head_start(p, p.key, 'h', len(p.raw))}",
        "value_start": f"o.{head_start(p, p.value, 'o', len(p.final))}",
        "score_index": ", ".join([*(f"s{d}" for d in range(len(scores))), "0", "0"]),
        "out_index": ", ".join([*(f"o{d}" for d in range(len(p.final) - 2)), "0", "0"]),
    }


def _layout(name: str, rank: int, feature: int) -> str:
    return f"{name}_shape, {name}_stride, {rank}, {feature}"


def _write_indices(p: Parts, scores: Sequence[str]) -> str:
    """Lines that split the number of a head into its indices in the first product, the result and the scores."""
    lines = Writer()
    split_head(lines, "h", raw_sizes(p))
    split_head(lines, "o", final_sizes(p))
    split_head(lines, "s", scores)
    return "\n  ".join(lines.text().splitlines())


def _compute(graph: Graph, attention: Attention, value: str) -> Expr | None:
    """A mask or a position that the graph spells out, computed from row and column. Raises Unsupported."""
    spec, rank = graph.specs[value], len(attention.shape)
    band = band_of(graph, value)
    if band is not None:
        check_band(graph, attention, value, band)
        return lane_band_step(
            band.limit, band.inside, band.outside, "m" if spec.dtype == "bool" else "f", rank
        )
    position = affine_of(graph, value)
    if position is None:
        return None
    if spec.dtype not in ("int64", "int32", "float32"):
        raise Unsupported(f"positions of {spec.dtype}")
    if (
        position.rows
        and spec.shape[-2:] != attention.shape[-2:]
        and spec.shape[-2:] != (attention.shape[-2], 1)
    ):
        raise Unsupported("positions over other rows and columns than the scores have")
    kind: Kind = "f" if spec.dtype == "float32" else "l"
    return lane_position_step(position.rows, position.columns, position.constant, kind, rank)
