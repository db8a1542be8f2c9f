"""Attention of float32 as two products on Hopper's tensor cores, as exact as plain float32.

In: queries (…, L, E), keys (…, S, E) and values (…, S, F) of the same heads. Out: kernels for HEADS heads at a time, so that what
they hand on is little and stays near: `keys::split` and `keys::product` make scores (L, S); `norms` finds the largest of
each row and the sum of its exponentials; `values::split` makes weights of scores where it reads them, and
`values::product` the result (`split_fp16`, `gemm_3xfp16`). In the workspace lie the scores, two
numbers a row, and the halves of one product at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....codegen.cuda.cuda_chain import write_chain, write_operands
from ....codegen.cuda.cuda_source import CudaBody, Launch
from ....codegen.fusion.op_chain import epilogue
from ....codegen.program import operand_names
from ....codegen.templates import render
from ....codegen.writer import Writer
from ....records import Graph, Region
from ...gemm.cuda.gemm_3xfp16 import INCLUDE, emit_3xfp16_kernels
from ...gemm.cuda.gemm_operands import CudaProduct, declare
from ...gemm.cuda.split_fp16 import DEPTH, SIDE, TILE_BYTES
from ...gemm.product import Factor, Named, Product

HEAD = "head"  # the first head of a round
_ROOM_ASSERT = (
    "static_assert(ALL == 0 || ROOM + (values::IMAGE + values::SCALES) * (keys::IMAGES > values::IMAGES ? keys::IMAGES : "
    'values::IMAGES) <= (int64_t)(WORKSPACE_BYTES), "the scratch memory");'
)


@dataclass(frozen=True)
class Heads:
    """An attention with the names of the unit's operands; `rank` of them all. `scale` of the scores: a C++ expression
    of WIDTH, the features of a query."""

    query: str
    key: str
    value: str
    out: str
    rank: int
    scale: str


@dataclass(frozen=True)
class _Round(Named):
    """A product of a round; the unit's result has other columns than the first one."""

    @property
    def batch(self) -> str:
        return "ROUND"

    @property
    def columns(self) -> str:
        return f"{self.right}_shape[{self.product.right.outer}]"


def attention_body(graph: Graph, region: Region, made: str, found: Heads) -> CudaBody:
    """`made`: the value that the attention makes."""
    top, w, names = Writer(), Writer(), list(operand_names(region).values())
    keys, values = _products(found)
    top.line(INCLUDE)
    _constants(top, found)
    write_operands(top, [*names, "scores", "norms"])
    write_chain(w, epilogue(graph, region, made, ()), "epilogue", -1)
    _product(w, "keys", keys, render("attention/cuda/attention_store_scores.cuh"), "as_it_is")
    for line in render("attention/cuda/attention_softmax_norms.cuh", scale=found.scale).splitlines():
        w.line(line)
    weights = "[&](int r) { return weights(o, b * M + first + r); }"
    _product(w, "values", values, render("attention/cuda/attention_store_output.cuh"), weights)
    w.line(_ROOM_ASSERT)
    starts = [f"{n} + begin({n}_shape, {n}_stride, DIMS, {HEAD})" for n in names]
    return CudaBody(
        top, w, (*_launches("keys"), Launch("norms", "ws::ceil_div(ROWS, 8)", "256", struct=True), *_launches("values")),
        _workspace(found), f"for (int64_t {HEAD} = 0; {HEAD} < ALL; {HEAD} += ROUND)",
        (*starts, "(float*)workspace", "(float*)workspace + SCORES_ROOM"),
    )  # fmt: skip


def _products(found: Heads) -> tuple[_Round, _Round]:
    """Queries · keys and weights · values."""
    heads, rows = tuple(range(found.rank - 2)), found.rank - 2

    def product(left: str, right: str, inner: int, outer: int) -> _Round:
        factors = Factor(left, (*heads, rows), rows + 1), Factor(right, (*heads, None), inner, outer)
        gemm = Product(*factors, found.rank, heads, (rows,), None, 1.0, 1.0)
        return _Round(gemm, left, right, "", found.out)

    return product(found.query, found.key, rows + 1, rows), product("scores", found.value, rows, rows + 1)


def _constants(top: Writer, found: Heads) -> None:
    dims, rows = found.rank - 2, f"{found.out}_shape[{found.rank - 2}]"
    for line in render("attention/cuda/attention_head_rounds.cuh").splitlines():
        top.line(line)
    heads = [f"{found.out}_shape[{d}]" for d in range(dims)]
    for d, name in ((d, n) for d in range(dims) for n in (found.query, found.key, found.value)):
        top.line(
            f'static_assert({name}_shape[{d}] == {heads[d]}, "requires: {name}_shape[{d}] == {heads[d]}");'
        )
    sizes = [*heads, rows, f"{found.key}_shape[{dims}]"]
    strides = [" * ".join(sizes[d + 1 :]) or "1" for d in range(found.rank)]
    text = render(
        "attention/cuda/attention_sizes.cuh",
        shape=", ".join(sizes),
        strides=", ".join(strides),
        width=f"{found.query}_shape[{found.rank - 1}]",
        dims=dims,
        heads=" * ".join(heads) or "1",
        out_shape=f"{found.out}_shape",
        rows=rows,
        keys=sizes[-1],
    )
    for line in text.splitlines():
        top.line(line)


def _product(w: Writer, space: str, named: _Round, finish: str, left_map: str) -> None:
    _, kernels = emit_3xfp16_kernels(named.left, named.right, left_map)
    with w.block(f"namespace {space}"):
        declare(w, CudaProduct(named, (), None))
        for line in (finish + kernels).splitlines():
            w.line(line)


def _launches(space: str) -> tuple[Launch, Launch]:
    """The split of a product's factors, and the product in one part."""
    images = "(unsigned char*)workspace + ROOM"
    work = f"({space}::WORK < BLOCKS ? {space}::WORK : BLOCKS)"
    return (
        Launch(f"{space}::split", f"{space}::IMAGES", "256", extra=images, struct=True),
        Launch(
            f"{space}::product", work, f"{space}::THREADS", f"{space}::SHARED", extra=f"{images}, (float*)nullptr",
            struct=True,
        ),
    )  # fmt: skip


def _workspace(found: Heads) -> str:
    """In terms of task.h and tunables: scores, two numbers a row, and tiles of the product that has more of them."""
    d = found.rank - 2
    rows, keys = f"{found.out}_shape[{d}]", f"{found.key}_shape[{d}]"
    depth, wide = f"{found.query}_shape[{d + 1}]", f"{found.out}_shape[{d + 1}]"
    heads = " * ".join(f"{found.out}_shape[{i}]" for i in range(d)) or "1"
    first = f"({depth} / {DEPTH} + 1) * ({rows} / {SIDE} + {keys} / {SIDE} + 2)"
    second = f"({keys} / {DEPTH} + 1) * ({rows} / {SIDE} + {wide} / {SIDE} + 2)"
    tiles = f"{TILE_BYTES} * ({first} > {second} ? {first} : {second})"
    return f"512 + (uint64_t)({heads} < HEADS ? {heads} : HEADS) * (4 * {rows} * ({keys} + 2) + {tiles})"
