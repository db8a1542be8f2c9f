"""A half-precision product of few tokens and a large weight, as a served model decodes: by `mma.sync`, at the speed of memory.

In: a `linear` of at most 32 tokens, fp16 or bf16, whose weight (N x K) is an operand, or what pointwise nodes and views make of narrower ones:
int8, float8 or int4, two of these in a byte, with scales a row, a group or a block. Out: its kernel `product`, and `combine` where blocks share K. Dequantisation is the
prologue: nothing of a dequantised weight goes through memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....codegen.cuda.cuda_source import Launch
from ....codegen.lowering.axis_relations import VIEWS, base_name
from ....codegen.lowering.ops import pointwise
from ....codegen.templates import render
from ....codegen.writer import Writer
from ....records import Graph, Node
from ...anchored import Anchor, extents
from ..product import Product
from .gemm_operands import CudaProduct, declare_places, list_row_strides

MOST_TOKENS = 32
LEAST_DEPTH = 64
KINDS = {"float16": "f16", "bfloat16": "bf16"}
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


def find_weight_source(graph: Graph, product: Product) -> WeightSource:
    """Walk back over reshapes that nothing else reads, to a value that a pointwise node makes; without one, the weight itself."""
    value, views = product.right.value, list[str]()
    while (
        (node := graph.producer.get(value)) is not None
        and len(graph.users[value]) == 1
        and value not in graph.returned
    ):
        if base_name(node) in RESHAPES:
            views.append(node.name)
            value = node.uses[0]
        elif pointwise(node.op) is not None and base_name(node) not in VIEWS:
            return WeightSource(value, tuple(reversed(views)))
        else:
            break
    return WeightSource(product.right.value)


def declare_small_m(top: Writer, made: CudaProduct, depth: str) -> None:
    """Write sizes and places; `depth`: K in terms of task.h."""
    named, product = made.named, made.named.product
    text = render(
        "gemm/cuda/gemm_small_m_mma_sizes.cuh",
        left_type=f"{named.left}_t",
        rank=max(1, product.rank),
        rows=named.rows,
        columns=named.columns,
        depth=depth,
        left_k=f"({named.left}_shape[{product.left.inner}] == 1 ? 1 : {named.left}_stride[{product.left.inner}])",
        left_rows=list_row_strides(named),
    )
    top.line('#include "warpsmith_cuda_mma.h"')
    for line in text.splitlines():
        top.line(line)
    declare_places(top, named)


def emit_small_m_mma_kernels(anchor: Anchor, left: str, right: str, source: str) -> tuple[list[Launch], str]:
    """`left`, `right`: operands; `right` is "" where a prologue makes the weight of the value `source`."""
    if right:
        width = f"K | {right}_stride[0]"
        read = f"return ws::read<V, 1, ({right}_stride[0]) % V == 0>(o.{right} + n * {right}_stride[0] + k);"
    else:
        sizes = extents(anchor, source)
        width, read = sizes[-1], _read_through_prologue(sizes)
    weight = render("gemm/cuda/gemm_small_m_mma_weight.cuh", width=width, read=read)
    kind = KINDS[anchor.node.output.spec.dtype]
    text = render("gemm/cuda/gemm_small_m_mma.cuh", left=left, kind=kind, weight=weight)
    launch = Launch(
        "product", "PARTS * ROW_BLOCKS * TOKEN_BLOCKS", "BLOCK", extra="(float*)workspace", struct=True
    )
    return [launch], text


def _read_through_prologue(sizes: list[str]) -> str:
    """Statements that turn a row and a place of it into the index of the value that the prologue makes."""
    last = len(sizes) - 1
    lines = [f"int64_t at[{last + 1}], index = n * K + k;"]
    for d in range(last, 0, -1):
        lines.append(f"at[{d}] = index % ({sizes[d]}), index /= ({sizes[d]});")
    lines += [
        "at[0] = index;",
        "const ws::Pack<float, V> exact = prologue0<V>(o, at);",
        "ws::Pack<left_t, V> rounded;",
        "#pragma unroll",
        "for (int v = 0; v < V; v++) rounded.at[v] = ws::store_as<left_t>(exact.at[v]);",
        "return rounded;",
    ]
    return "\n  ".join(lines)
