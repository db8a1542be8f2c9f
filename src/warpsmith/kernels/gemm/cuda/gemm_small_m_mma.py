"""A half-precision product of few tokens and a large weight, as a served model decodes: by `mma.sync`, at the speed of memory.

In: a `linear` of at most 32 tokens, fp16 or bf16, whose weight (N x K) is an operand, or what pointwise nodes and views make of narrower ones:
int8, float8 or int4, two of these in a byte, with scales a row, a group or a block. Out: its kernel `product`, and `combine` where blocks share K. Weights go as they are
into a ring of shared memory, and dequantisation is between there and the registers: nothing of a dequantised weight goes through memory. Two
linear layers of the same tokens that pointwise nodes join (SwiGLU's) are one kernel: rows of both weights take turns in a tile.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....codegen.cuda.cuda_source import Launch
from ....codegen.cuda.staged_chain import write_copy, write_staged_chain
from ....codegen.fusion.op_chain import Chain, prologue
from ....codegen.lowering.axis_relations import VIEWS, base_name
from ....codegen.lowering.ops import pointwise
from ....codegen.templates import render
from ....codegen.writer import Writer
from ....records import Graph, Node
from ...anchored import Anchor, extents
from ..dual_product import DualProduct, find_dual
from ..product import Product, product_of
from .gemm_operands import CudaProduct, declare_places, list_row_strides

MOST_TOKENS = 32
LEAST_DEPTH = 64
KINDS = {"float16": "f16", "bfloat16": "bf16"}
LEAST_DUAL_COLUMNS = 2048  # of each weight: K is not split, and all multiprocessors are to have rows
STORE = """if constexpr (PARTS == 1) finish<1>(o, 0, token, row, ws::Pack<float, 1>{{sum}});
    else partial[(part * M + token) * N + row] = sum;"""
STORE_DUAL = (
    "finish<1>(o, 0, token, row, ws::Pack<float, 1>{{sum}}, ws::Pack<float, 1>{{add_up(room + i + 64)}});"
)
COPY = "prologue0_copy<WEIGHT_V>(o, at, inside(n, k), to, PLACE_PITCH, i);"
COPY_DUAL = """if (second) prologue1_copy<WEIGHT_V>(o, at, inside(n, k), to, PLACE_PITCH, i);
    else prologue0_copy<WEIGHT_V>(o, at, inside(n, k), to, PLACE_PITCH, i);"""
RESHAPES = ("view", "reshape", "_unsafe_view")


@dataclass(frozen=True)
class WeightSource:
    """The value that the weight is a view of, and the views between."""

    value: str
    views: tuple[str, ...] = ()


def takes_small_m(graph: Graph, node: Node, product: Product) -> bool:
    """Tell whether a product is a linear layer of few tokens in half precision."""
    _, rows, _, depth = product.sizes(graph, node)
    return (
        base_name(node) == "linear"
        and node.output.spec.dtype in KINDS
        and 1 <= rows <= MOST_TOKENS
        and depth >= LEAST_DEPTH
        and node.output.spec.numel > 0
    )


def find_dual_small_m(graph: Graph, node: Node) -> DualProduct | None:
    """Find the pair of linear layers of the same few tokens, without bias, whose weights are operands as they are."""
    dual = find_dual(graph, node)
    if dual is None or not all(base_name(n) == "linear" for n in (dual.first, dual.second)):
        return None
    first, second = (product_of(graph, n) for n in (dual.first, dual.second))
    weights = first.right.value, second.right.value
    fits = (
        takes_small_m(graph, dual.first, first)
        and first.left.value == second.left.value
        and first.addend is second.addend is None
        and weights[0] != weights[1]
        and graph.specs[weights[0]].shape == graph.specs[weights[1]].shape
        and not any(w in graph.producer for w in weights)
        and graph.specs[weights[0]].shape[0] >= LEAST_DUAL_COLUMNS
    )
    return dual if fits else None


def find_weight_source(graph: Graph, product: Product) -> WeightSource:
    """Walk back over reshapes that nothing else reads, to a value that a pointwise node makes; without one, the weight itself."""
    value, views = product.right.value, list[str]()
    while (node := graph.producer.get(value)) is not None and graph.is_read_once(value):
        if base_name(node) in RESHAPES:
            views.append(node.name)
            value = node.uses[0]
        elif pointwise(node.op) is not None and base_name(node) not in VIEWS:
            return WeightSource(value, tuple(reversed(views)))
        else:
            break
    return WeightSource(product.right.value)


def declare_small_m(top: Writer, made: CudaProduct, depth: str, weights: int = 1) -> None:
    """Write sizes and places; `depth`: K in terms of task.h; `weights`: 2 for a dual product."""
    named, product = made.named, made.named.product
    text = render(
        "gemm/cuda/gemm_small_m_mma_sizes.cuh",
        left_type=f"{named.left}_t",
        rank=max(1, product.rank),
        weights=weights,
        rows=named.rows,
        columns=named.columns,
        depth=depth,
        left_k=f"({named.left}_shape[{product.left.inner}] == 1 ? 1 : {named.left}_stride[{product.left.inner}])",
        left_rows=list_row_strides(named),
    )
    top.paste('#include "warpsmith_cuda_mma.h"\n#include "warpsmith_cuda_pairs.h"')
    for line in text.splitlines():
        top.line(line)
    declare_places(top, named)


def emit_small_m_mma_kernels(
    w: Writer, anchor: Anchor, tokens: str, product: Product, other: str = ""
) -> list[Launch]:
    """Write the chain that makes the weight, in two steps, and the kernel. `tokens`: operand of the left factor; `other`: value of the second
    weight of a dual product.
    """
    value, before = product.right.value, tuple[str, ...]()
    if value not in anchor.names:
        assert anchor.core is not None  # which has what the weight is made of
        value = anchor.core.reads[0]
        before = anchor.before[value]
    half = anchor.node.output.spec.dtype
    chain = prologue(anchor.graph, anchor.region, value, before)
    rounded = all(anchor.graph.by_name[n].output.spec.dtype == half for n in before)
    write_staged_chain(w, chain, "prologue0", half, rounded)
    sizes = extents(anchor, value)
    width = _find_width(chain, sizes)
    if other:
        second = prologue(anchor.graph, anchor.region, other, ())
        write_copy(w, list(second.program.inputs), "prologue1", len(sizes) - 1)
        width += f" | {_find_width(second, sizes)}"
    weight = render(
        "gemm/cuda/gemm_small_m_mma_weight.cuh",
        width=width,
        weight_rank=len(sizes),
        at=_locate(sizes),
        same_along_rows="true" if _is_same_along_rows(chain, len(sizes)) else "false",
        copy=COPY_DUAL if other else COPY,
    )
    store = STORE_DUAL if other else STORE
    w.paste(
        render("gemm/cuda/gemm_small_m_mma.cuh", left=tokens, kind=KINDS[half], weight=weight, store=store)
    )
    sums = "(float*)nullptr" if other else "(float*)workspace"
    return [Launch("product", "BLOCKS", "BLOCK", "SHARED", extra=sums, struct=True)]


def _is_same_along_rows(chain: Chain, rank: int) -> bool:
    """Tell whether all that elements of one row are made with, beside themselves, is the row's."""
    uniform = [o for o in chain.program.inputs if rank - 1 not in o.axes]
    return rank == 2 and all(set(o.axes) <= {0, None} for o in uniform)


def _find_width(chain: Chain, sizes: list[str]) -> str:
    """Return a number that as many neighbours divide as may be read together: of a dimension, and of how far rows are apart."""
    steps = [
        f"{'2 * ' if o.nibbles is not None else ''}({o.name}_shape[{d}] == 1 ? 0 : {o.name}_stride[{d}])"
        for o in chain.program.inputs
        for d, axis in enumerate(o.axes)
        if axis is not None and axis < len(sizes) - 1 and len(sizes) - 1 in o.axes
    ]
    return " | ".join([sizes[-1], *dict.fromkeys(steps)])


def _locate(sizes: list[str]) -> str:
    """Statements that turn a row and a place of it into the index of the value that the chain makes."""
    if len(sizes) == 2:
        return "at[0] = n, at[1] = k;"
    last = len(sizes) - 1
    lines = ["ws::Int<N * K + K> index = n * K + k;"]
    for d in range(last, 0, -1):
        lines.append(f"at[{d}] = index % ({sizes[d]}), index /= ({sizes[d]});")
    return "\n  ".join([*lines, "at[0] = index;"])
