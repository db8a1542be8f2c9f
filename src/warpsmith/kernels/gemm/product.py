"""A matrix product as the graph has it, and its sizes and strides as constants of a unit.

In: a node (mm, addmm, bmm, baddbmm, mv, addmv, dot, linear, matmul). Out: a `Product`: which dimension of which factor
runs over rows, columns, batch and the summed index, so that one generator writes them all; and the C++ constants
that the kernels in `gemm/cpu` are written in. A matrix times a vector is the vector times the matrix transposed: the last
dimension of the result is always the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ...codegen.lowering.axis_relations import base_name
from ...codegen.lowering.op_builder import FLOATS, literal, number, option
from ...codegen.program import Unsupported
from ...records import Graph, Node

PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "linear", "matmul"})
ADDING = {"addmm", "baddbmm", "addmv"}  # addend first


@dataclass(frozen=True)
class Factor:
    """`dims`: for each dimension of the product but the last, which of the factor's goes along, None for none."""

    value: str
    dims: tuple[int | None, ...]
    inner: int  # the dimension summed over
    outer: int | None = None  # of the right factor: the one that is the product's last


@dataclass(frozen=True)
class Product:
    left: Factor
    right: Factor
    rank: int
    batch: tuple[int, ...]  # dimensions of the product over which the right factor changes
    rows: tuple[int, ...]  # the others but the last
    addend: str | None
    alpha: float
    beta: float

    def sizes(self, graph: Graph, node: Node) -> tuple[int, int, int, int]:
        """(batch, rows, columns, depth) at the main variant."""
        shape = node.output.spec.shape
        depth = graph.specs[self.right.value].shape[self.right.inner]
        columns = shape[-1] if shape else 1
        return prod(shape[d] for d in self.batch), prod(shape[d] for d in self.rows), columns, depth


def product_of(graph: Graph, node: Node) -> Product:
    """Raises Unsupported for what is not a product of floating-point tensors."""
    name = base_name(node)
    if name not in PRODUCTS or not node.op.endswith(".default"):
        raise Unsupported(f"{node.op} is not a product")
    if any(graph.specs[v].dtype != node.output.spec.dtype for v in node.uses):
        raise Unsupported("factors of different types")
    if node.output.spec.dtype not in FLOATS:
        raise Unsupported(f"a product of {node.output.spec.dtype}")
    values = [a["v"] if isinstance(a, dict) and "v" in a else None for a in node.args]
    addend = values.pop(0) if name in ADDING else None
    first, second = values[0], values[1]
    if first is None or second is None:
        raise Unsupported("a factor that is no tensor")
    alpha, beta = (number(option(node, 9, n, 1)) if name in ADDING else 1.0 for n in ("alpha", "beta"))
    if name == "linear":
        addend = (
            option(node, 2, "bias", None)["v"] if isinstance(option(node, 2, "bias", None), dict) else None
        )
        rank = len(graph.specs[first].shape)
        if len(graph.specs[second].shape) != 2:
            raise Unsupported("a weight that is no matrix")
        lhs = Factor(first, tuple(range(rank - 1)), rank - 1)
        rhs = Factor(second, (None,) * (rank - 1), 1, 0)
        return Product(lhs, rhs, rank, (), tuple(range(rank - 1)), addend, 1.0, 1.0)
    ranks = len(graph.specs[first].shape), len(graph.specs[second].shape)
    return _general(first, second, ranks, addend if beta != 0.0 else None, alpha, beta)


def _general(
    first: str, second: str, ranks: tuple[int, int], addend: str | None, alpha: float, beta: float
) -> Product:
    """torch.matmul's rules for ranks (https://pytorch.org/docs/stable/generated/torch.matmul.html)."""
    p, q = ranks
    if p == 0 or q == 0:
        raise Unsupported("a factor without dimensions")
    if p == 1 and q == 1:
        return Product(Factor(first, (), 0), Factor(second, (), 0), 0, (), (), addend, alpha, beta)
    if q == 1:  # turned round: vector times transposed matrix
        batch = tuple(range(p - 2))
        lhs, rhs = Factor(second, (None,) * (p - 2), 0), Factor(first, batch, p - 1, p - 2)
        return Product(lhs, rhs, p - 1, batch, (), addend, alpha, beta)
    if p == 1:
        batch = tuple(range(q - 2))
        lhs, rhs = Factor(first, (None,) * (q - 2), 0), Factor(second, batch, q - 2, q - 1)
        return Product(lhs, rhs, q - 1, batch, (), addend, alpha, beta)
    if q == 2:
        rows = tuple(range(p - 1))
        lhs, rhs = Factor(first, rows, p - 1), Factor(second, (None,) * (p - 1), 0, 1)
        return Product(lhs, rhs, p, (), rows, addend, alpha, beta)
    rank = max(p, q)
    batch = tuple(range(rank - 2))
    left_batch, right_batch = ([d - (rank - n) if d >= rank - n else None for d in batch] for n in (p, q))
    lhs, rhs = (
        Factor(first, (*left_batch, p - 2), p - 1),
        Factor(second, (*right_batch, None), q - 2, q - 1),
    )
    return Product(lhs, rhs, rank, batch, (rank - 2,), addend, alpha, beta)


@dataclass(frozen=True)
class Named:
    """The product with the names of the unit's operands. `left` is "" where a prologue makes the factor."""

    product: Product
    left: str
    right: str
    addend: str
    out: str  # any output of the region: they all have the product's shape

    @property
    def batch(self) -> str:
        return _times([f"{self.out}_shape[{d}]" for d in self.product.batch])

    @property
    def rows(self) -> str:
        return _times([f"{self.out}_shape[{d}]" for d in self.product.rows])

    @property
    def columns(self) -> str:
        return f"{self.out}_shape[{self.product.rank - 1}]" if self.product.rank else "1"

    @property
    def depth(self) -> str:
        return f"{self.right}_shape[{self.product.right.inner}]"


def declarations(named: Named) -> str:
    """Sizes and strides as the kernels in `gemm/cpu` call them, where rows start, and `place`, the index of a row."""
    product = named.product
    lines = [
        f"typedef {named.left + '_t' if named.left else 'float'} left_t;",
        f"typedef {named.right}_t right_t;",
        f"constexpr int64_t BATCH = {named.batch}, M = {named.rows}, N = {named.columns}, K = {named.depth};",
        f"constexpr int64_t RIGHT_K = {_stride(named.right, product.right.inner)};  // strides along the sum,",
        f"constexpr int64_t RIGHT_N = {_stride(named.right, product.right.outer)};  // columns,",
        *_left_strides(named),
        *_place(named),
        f"WS_FN int64_t left_at(const int64_t* at) {{ (void)at; return {_offset(named.left, product.left.dims)}; }}",
        f"WS_FN int64_t right_at(const int64_t* at) {{ (void)at; return {_offset(named.right, product.right.dims)}; }}",
    ]
    return "\n".join(lines) + "\n"


def _left_strides(named: Named) -> list[str]:
    """Rows are evenly spaced where the dimensions that make them lie flat in memory."""
    product = named.product
    if not named.left:
        return ["constexpr bool LEFT_MADE = true, LEFT_EVEN = false;  // by the prologue",
                "constexpr int64_t LEFT_K = 1, LEFT_M = 0;"]  # fmt: skip
    dims = [d for r in product.rows if (d := product.left.dims[r]) is not None]
    even, pace = "true", "0"
    if dims:
        table = f"{named.left}_shape, {named.left}_stride, {dims[0]}, {dims[-1]}"
        even, pace = f"flat({table})", f"pace({table})"
    return [
        f"constexpr int64_t LEFT_K = {_stride(named.left, product.left.inner)};",
        f"constexpr int64_t LEFT_M = {pace};  // rows",
        f"constexpr bool LEFT_MADE = false, LEFT_EVEN = {even};",
    ]


def _place(named: Named) -> list[str]:
    rank = max(1, named.product.rank)
    lines = [f"constexpr int RANK = {rank};", "WS_FN void place(int64_t b, int64_t m, int64_t* at) {"]
    for counter, dims in (("b", named.product.batch), ("m", named.product.rows)):
        if not dims:
            lines.append(f"  (void){counter};")
        for d in reversed(dims[1:]):
            size = f"most(1, {named.out}_shape[{d}])"
            lines.append(f"  at[{d}] = {counter} % {size}, {counter} /= {size};")
        if dims:
            lines.append(f"  at[{dims[0]}] = {counter};")
    return [*lines, "}"]


def addend_lines(named: Named, shape: Sequence[int]) -> list[str]:
    """Statements that make `sums`, `count` floats from column n on, alpha * sums + beta * addend."""
    product = named.product
    if not named.addend and product.alpha == 1.0:
        return []
    alpha = "" if product.alpha == 1.0 else f"{literal(product.alpha)} * "
    lines: list[str] = []
    total = f"{alpha}ws::load(sums + j)"
    if named.addend:
        offset = product.rank - len(shape)
        dims = [(d, d + offset) for d in range(len(shape))]
        axes: tuple[int | None, ...] = tuple(
            next((d for d, o in dims if o == r), None) for r in range(product.rank)
        )
        start = _offset(named.addend, axes[:-1])
        column = _broadcast_stride(named.addend, axes[-1]) if axes and axes[-1] is not None else "0"
        lines += [
            f"constexpr int64_t addend_step = {column};",
            f"const {named.addend}_t* const addend = {named.addend} + {start} + n * addend_step;",
        ]
        beta = "" if product.beta == 1.0 else f"{literal(product.beta)} * "
        total += f" + {beta}read<addend_step>(addend, j, (int)least(VEC, count - j))"
    return [*lines, f"for (int64_t j = 0; j < count; j += VEC) ws::store(sums + j, {total});"]


def left_index(named: Named, rank: int) -> list[str]:
    """Statements that make `index` the start of row `at` of the left factor, from element k of the sum on."""
    product = named.product
    lines = [f"int64_t index[{rank}] = {{}};"]
    for position, d in enumerate(product.left.dims):
        if d is not None:
            lines.append(f"index[{d}] = at[{position}];")
    return [*lines, f"index[{product.left.inner}] = k;"]


def _offset(name: str, dims: Sequence[int | None]) -> str:
    """Return the start of an operand's part at the index `at`."""
    if not name:
        return "0"
    terms = [
        f"at[{position}] * {_broadcast_stride(name, d)}" for position, d in enumerate(dims) if d is not None
    ]
    return " + ".join(terms) or "0"


def _broadcast_stride(name: str, d: int | None) -> str:
    return f"({name}_shape[{d}] == 1 ? 0 : {name}_stride[{d}])"


def _stride(name: str, d: int | None) -> str:
    """Stride of a dimension; 1 where it has one element, which is as good as dense."""
    return "1" if d is None else f"{name}_shape[{d}] == 1 ? 1 : {name}_stride[{d}]"


def _times(terms: list[str]) -> str:
    return " * ".join(terms) or "1"
