"""What the CUDA kernels of a matrix product share: sizes and strides as constants, and what becomes of the sums.

In: a product with the names of the unit's operands, and the triangle of the result that is kept, if only one is. Out:
CUDA C++, general in all shapes and strides. `declare` writes constants (in terms of task.h, before the chains); `FINISH`
(after them) has `finish`, which takes sums to the outputs through addend, triangle and epilogue; `store_tile`, which
takes a tile out of shared memory there, or to the workspace where the sum is SPLIT over blocks; and `combine`, the
kernel that adds such parts in a fixed order. A kernel defines BK (of a slice of the sum), and THREADS of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....codegen.cuda.cuda_source import Launch
from ....codegen.lowering.op_builder import literal
from ....codegen.templates import render
from ....codegen.writer import Writer
from ..product import Factor, Named


@dataclass(frozen=True)
class Triangle:
    """Return the strides of the product's last two dimensions; zeros elsewhere."""

    lower: bool
    diagonal: int


GATHERED = "gathered"  # how sizes and strides call a factor whose matrices are picked from a table


@dataclass(frozen=True)
class MatrixTable:
    """Where the matrices of the factor GATHERED are: the operands of the table and of the index, and their ranks."""

    operand: str
    rows: str
    rank: int
    rows_rank: int


@dataclass(frozen=True)
class CudaProduct:
    """`addend_shape`: at the main variant; its rank is what counts."""

    named: Named
    addend_shape: tuple[int, ...]
    triangle: Triangle | None
    table: MatrixTable | None = None


def declare(top: Writer, made: CudaProduct) -> None:
    """Sizes (BATCH, M, N, K), strides, what may be copied at once, places. A factor lies ALONG the sum or ACROSS it,
    where neighbours are at neighbouring addresses, or neither; VEC: floats of it that one copy may take."""
    named, product = made.named, made.named.product
    top.use("flat")
    if made.table is not None:
        _declare_gathered(top, made.table)
    lhs, rhs = named.left, named.right
    rows = [d for r in product.rows if (d := product.left.dims[r]) is not None]
    left_batch = [_step(lhs, d) for b in product.batch if (d := product.left.dims[b]) is not None]
    right_batch = [_step(rhs, d) for d in product.right.dims if d is not None]
    if made.table is not None:
        (left_batch if lhs == GATHERED else right_batch).append(f"{made.table.operand}_stride[0]")
    table = f"{lhs}_shape, {lhs}_stride, {rows[0]}, {rows[-1]}" if rows else ""
    sizes = render(
        "gemm/cuda/gemm_sizes.cuh",
        left_type=f"{lhs}_t",
        right_type=f"{rhs}_t",
        rank=max(1, product.rank),
        batch=named.batch,
        rows=named.rows,
        columns=named.columns,
        depth=named.depth,
        left_k=_dense(lhs, product.left.inner),
        left_m=f"pace({table})" if rows else "0",
        right_k=_dense(rhs, product.right.inner),
        right_n=_dense(rhs, product.right.outer),
        left_even=f"flat({table})" if rows else "true",
        left_batch=_any(left_batch),
        right_batch=_any(right_batch),
        left_rows=list_row_strides(named),
    )
    for line in sizes.splitlines():
        top.line(line)
    declare_places(top, named)
    _outside(top, made.triangle)


def _declare_gathered(top: Writer, table: MatrixTable) -> None:
    """Sizes and strides of what is picked: the index' own dimensions take no step, `table_start` does."""
    inner = range(1, table.rank)
    shape = [f"{table.rows}_shape[{d}]" for d in range(table.rows_rank)] + [
        f"{table.operand}_shape[{d}]" for d in inner
    ]
    stride = ["0"] * table.rows_rank + [f"{table.operand}_stride[{d}]" for d in inner]
    top.line(f"typedef {table.operand}_t {GATHERED}_t;")
    for member, values in (("shape", shape), ("stride", stride)):
        top.line(f"static constexpr __constant__ int64_t {GATHERED}_{member}[] = {{{', '.join(values)}}};")


def render_table_start(factor: Factor, table: MatrixTable) -> str:
    """Write `table_start`, where the matrix of batch b begins."""
    positions = {d: position for position, d in enumerate(factor.dims) if d is not None}
    terms = [f"at[{positions[d]}] * {_step(table.rows, d)}" for d in range(table.rows_rank)]
    return render(
        "gemm/cuda/gemm_table_start.cuh",
        rows=table.rows,
        index=" + ".join(terms) or "0",
        count=f"{table.operand}_shape[0]",
        stride=f"{table.operand}_stride[0]",
    )


def declare_places(top: Writer, named: Named) -> None:
    """Write `place`, `left_at` and `right_at`."""
    product = named.product
    top.line(
        "// The index of row m of batch b; where a row of the left factor, a batch of the right one begins."
    )
    with top.block("__device__ __forceinline__ void place(int64_t b, int64_t m, int64_t (&at)[RANK])"):
        top.line("at[RANK - 1] = 0;")
        for counter, dims in (("b", product.batch), ("m", product.rows)):
            for d in reversed(dims[1:]):
                size = f"({named.out}_shape[{d}] > 0 ? {named.out}_shape[{d}] : 1)"
                top.line(f"at[{d}] = {counter} % {size}, {counter} /= {size};")
            if dims:
                top.line(f"at[{dims[0]}] = {counter};")
    for name, operand, taken in (
        ("left_at", named.left, product.left.dims), ("right_at", named.right, product.right.dims),
    ):  # fmt: skip
        with top.block(f"__device__ __forceinline__ int64_t {name}(int64_t b, int64_t m)"):
            top.line("int64_t at[RANK];")
            top.line("place(b, m, at);")
            terms = [f"at[{r}] * {_step(operand, d)}" for r, d in enumerate(taken) if d is not None]
            top.line(f"return {' + '.join(terms) or '0'};")


def list_row_strides(named: Named) -> str:
    """Write the strides of the left factor's rows, such that a power of two that divides the whole divides each."""
    product = named.product
    return _any([_step(named.left, d) for r in product.rows if (d := product.left.dims[r]) is not None])


def _outside(top: Writer, triangle: Triangle | None) -> None:
    top.line("// Do these rows and columns all lie outside what is kept of the product?")
    head = "__device__ __forceinline__ bool outside(int64_t first, int64_t last, int64_t from, int64_t to)"
    with top.block(head):
        if triangle is None:
            top.line("return false;")
        elif triangle.lower:
            top.line(f"return from > last + {triangle.diagonal};")
        else:
            top.line(f"return to < first + {triangle.diagonal};")


def finish(w: Writer, made: CudaProduct, dual: bool = False) -> None:
    """`finish<V>`: V sums of row m of batch b from column n on, to the outputs; and what stores and combines them. `dual`: of two products, whose sums
    are not split.
    """
    named, product, triangle = made.named, made.named.product, made.triangle
    w.line("template <int V>")
    others = ", ws::Pack<float, V> others" if dual else ""
    head = f"__device__ __forceinline__ void finish(const Operands& o, int64_t b, int64_t m, int64_t n, ws::Pack<float, V> sums{others})"
    with w.block(head):
        w.line("int64_t at[RANK];")
        w.line("place(b, m, at);")
        if product.rank:
            w.line("at[RANK - 1] = n;")
        total = "sums.at[v]" if product.alpha == 1.0 else f"{literal(product.alpha)} * sums.at[v]"
        if named.addend:
            total += (
                f" + {'' if product.beta == 1.0 else literal(product.beta) + ' * '}ws::load_as(addend.at[v])"
            )
            for line in _addend(named, made.addend_shape):
                w.line(line)
        if triangle is not None:
            outside = f"n + v {'>' if triangle.lower else '<'} m + {triangle.diagonal}"
            total = f"{outside} ? 0.0f : {total}"
        if total != "sums.at[v]":
            w.line("#pragma unroll")
            w.line(f"for (int v = 0; v < V; v++) sums.at[v] = {total};")
        w.line(f"epilogue<V>(o, sums{', others' if dual else ''}, at);")
    if dual:
        w.line('static_assert(PARTS == 1, "requires: SPLIT == 1");')
        return
    for line in render("gemm/cuda/gemm_split_k.cuh").splitlines():
        w.line(line)


def combining() -> Launch:
    return Launch(
        "combine", "(PARTS > 1 ? ws::ceil_div(BATCH * M * N / OUT_VEC, (int64_t)256) : 0)", "256",
        extra="(const float*)workspace", struct=True,
    )  # fmt: skip


def parts_bytes(named: Named) -> str:
    """Return the bytes of the partial sums in the workspace, in terms of task.h and tunables."""
    return f"SPLIT > 1 ? 4 * (uint64_t)SPLIT * ({named.batch}) * ({named.rows}) * ({named.columns}) : 0"


def _addend(named: Named, shape: Sequence[int]) -> list[str]:
    """`addend`, what is added to V sums at `at`."""
    name, rank = named.addend, named.product.rank
    steps = {d + rank - len(shape): _step(name, d) for d in range(len(shape))}
    column_stride = steps.pop(rank - 1, "0")
    start = "".join(f" + at[{d}] * {step}" for d, step in steps.items())
    return [
        f"constexpr int64_t addend_step = {column_stride};",
        f"constexpr bool addend_whole = ({_any(list(steps.values()))}) % V == 0;",
        f"const ws::Pack<{name}_t, V> addend = ws::read<V, addend_step, addend_whole>(o.{name}{start} + n * addend_step);",
    ]


def _step(name: str, d: int) -> str:
    """From one element to the next of a dimension; none where it is broadcast."""
    return f"({name}_shape[{d}] == 1 ? 0 : {name}_stride[{d}])"


def _dense(name: str, d: int | None) -> str:
    """The same; 1 where there is one element, which is as good as dense."""
    return "1" if d is None else f"({name}_shape[{d}] == 1 ? 1 : {name}_stride[{d}])"


def _any(strides: list[str]) -> str:
    """A power of two divides this when it divides all of them."""
    return f"({' | '.join(strides)})" if strides else "0"
