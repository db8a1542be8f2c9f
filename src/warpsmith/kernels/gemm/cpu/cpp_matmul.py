"""Matrix products of small and odd shapes (skinny, tall, batched small, vectors, short or long sums, one triangle of
the product), with the pointwise nodes before their left factor and after them.

In: mm, addmm, bmm, baddbmm, mv, addmv, dot, linear or matmul of float32, bfloat16 or float16 tensors, any strides.
Out: units in two techniques, `panels` (`gemm/cpu/outer_product.h`) and `dots` (`gemm/cpu/inner_product.h`). Both define
`multiply(left, right, scratch, fill, finish)`: `fill(to, at, k, n)` makes n floats of a row of the left factor from
element k of the sum on; `finish(b, m, n, sums, count)` takes `count` results of row m of batch b from column n on, and
may overwrite them. Declines what the library is known to do faster (`_library_wins`); the epilogue then becomes a region
of its own.
"""

from __future__ import annotations

from dataclasses import replace

from ....codegen.lowering.axis_relations import base_name
from ....codegen.lowering.op_builder import option
from ....codegen.program import Unsupported
from ....codegen.templates import render
from ....codegen.writer import INLINE, Writer
from ....facts import Facts
from ....records import Graph, Node, Region, Tunable
from ...anchored import Anchor
from ...cpp_anchored import CppAnchored
from ...family import Bottleneck, Technique, register_tunable, stream_tunable, tunable, vectors_beside
from ..matmul_pattern import MatMulPattern, Sizes, triangle_of
from ..product import Named, Product, addend_lines, declarations, left_index, product_of

TRIANGLES = {"tril": "gemm/cpu/lower_triangle.h", "triu": "gemm/cpu/upper_triangle.h"}
BLOCK_BYTES = 1 << 19  # of the right factor that a block packs; within it the left factor is read once
MAX_DEPTH = 4096  # as in the code
FEW = 4  # rows or columns up to which a product of 16-bit factors is bound by memory


class CppMatMul(MatMulPattern, CppAnchored):
    def supports(self, graph: Graph, node: Node) -> bool:
        try:
            product = product_of(graph, node)
        except Unsupported:
            return False
        return not _library_wins(node.output.spec.dtype, Sizes(*product.sizes(graph, node)))

    def prologues(self, graph: Graph, node: Node) -> tuple[str, ...]:
        """The left factor, where a prologue would compute each of its elements once."""
        product = product_of(graph, node)
        sizes = Sizes(*product.sizes(graph, node))
        lhs = product.left.value
        shared = lhs in (product.right.value, product.addend)
        return () if shared or 4 * sizes.columns * sizes.depth > BLOCK_BYTES else (lhs,)

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        anchor = self.anchor(graph, region)
        if anchor is None:
            return []
        product = product_of(graph, anchor.node)
        sizes = Sizes(*product.sizes(graph, anchor.node))
        contiguous = graph.specs[product.right.value].stride[product.right.inner] == 1
        short_side = min(sizes.rows, sizes.columns)
        techniques = []
        if not (contiguous and sizes.rows == 1) and sizes.columns > 1:
            techniques.append(_panels(graph, region, facts, product, sizes))
        if (short_side <= 8 and sizes.depth >= 16 and (contiguous or sizes.columns <= 8)) or not techniques:
            techniques.append(
                _dots(graph, region, facts, sizes, 1.2 if contiguous or short_side <= 2 else 0.8)
            )
        if triangle_of(anchor) is not None:  # what is outside is not computed: fewer operations
            techniques = [replace(t, name=f"algebraic-{t.name}") for t in techniques]
        return sorted(techniques, key=lambda t: -t.gain)

    def helpers(self, anchor: Anchor, technique: Technique) -> str:
        triangle = triangle_of(anchor)
        if triangle is None:
            order = render("gemm/cpu/full_product.h")
        else:
            kernel = TRIANGLES[base_name(triangle)]
            order = render(kernel, diagonal=int(option(triangle, 1, "diagonal", 0)))
        panels = technique.name.endswith("panels")
        loops = render("gemm/cpu/outer_product.h" if panels else "gemm/cpu/inner_product.h")
        return "".join([
            render("gemm/cpu/constants.h"), declarations(_name_factors(anchor)), render("gemm/cpu/split_k.h"), order,
            loops,
        ])  # fmt: skip

    def body(self, w: Writer, anchor: Anchor, technique: Technique) -> str:
        named = _name_factors(anchor)
        for helper in ("read", "write", "flat"):
            w.use(helper)
        room = _workspace(named, technique)
        w.line("constexpr int64_t PARTIAL = PARTS > 1 ? PARTS * BATCH * M * LINE : 0;")
        w.line('static_assert(4 * (THREADS * SCRATCH + PARTIAL) <= WORKSPACE_BYTES, "the scratch memory");')
        _fill(w, anchor, named)
        _finish(w, anchor, named)
        lhs = named.left or "(const left_t*)nullptr"
        w.line(f"multiply({lhs}, {named.right}, (float*)workspace, fill, finish);")
        return room


def _name_factors(anchor: Anchor) -> Named:
    product, names = product_of(anchor.graph, anchor.node), anchor.names
    computed = bool(anchor.before.get(product.left.value))
    lhs = "" if computed else names[product.left.value]
    addend = names[product.addend] if product.addend is not None else ""
    return Named(product, lhs, names[product.right.value], addend, names[anchor.region.outputs[0]])


def _fill(w: Writer, anchor: Anchor, named: Named) -> None:
    """A row of the left factor as floats: by the prologue, or as it lies in memory."""
    head = f"const auto fill = [&](float* to, const int64_t* at, int64_t k, int64_t length) {INLINE}"
    with w.block(head, "};"):
        if named.left:
            w.line(f"const left_t* const from = {named.left} + left_at(at) + k * LEFT_K;")
            with w.block("for (int64_t j = 0; j < length; j += VEC)"):
                w.line("const int n = (int)least(VEC, length - j);")
                w.line("write<1>(to, j, read<LEFT_K>(from, j, n), n);")
        else:
            w.line("(void)at;")
            rank = len(anchor.graph.specs[named.product.left.value].shape)
            for line in left_index(named, rank):
                w.line(line)
            w.line("prologue0(to, index, length);")


def _finish(w: Writer, anchor: Anchor, named: Named) -> None:
    """Write what follows the sums: the addend, the triangle, the epilogue."""
    product = named.product
    head = f"const auto finish = [&](int64_t b, int64_t m, int64_t n, float* sums, int64_t count) {INLINE}"
    with w.block(head, "};"):
        w.line("int64_t at[RANK] = {};")
        w.line("place(b, m, at);")
        if product.rank:
            w.line("at[RANK - 1] = n;")
        shape = anchor.graph.specs[product.addend].shape if product.addend is not None else ()
        for line in addend_lines(named, shape):
            w.line(line)
        triangle = triangle_of(anchor)
        if triangle is not None:
            low, high = ("most(0, m + DIAGONAL + 1 - n)", "count") if base_name(triangle) == "tril" else (
                "0", "least(count, m + DIAGONAL - n)")  # fmt: skip
            w.line(f"for (int64_t j = {low}; j < {high}; ++j) sums[j] = 0.0f;")
        w.line("epilogue(sums, at, count);")


def _library_wins(dtype: str, sizes: Sizes) -> bool:
    """Processors multiply bfloat16 matrices twice as fast as float32 ones, with instructions that vectors of
    float32 do not reach; with few rows or columns, though, memory is what counts.
    """
    return dtype != "float32" and min(sizes.rows, sizes.columns) > FEW


def _panels(graph: Graph, region: Region, facts: Facts, product: Product, sizes: Sizes) -> Technique:
    rows = sorted(
        (12, 8, 6) if facts.registers >= 32 else (6, 4), key=lambda r: _tiling_cost(r, sizes, facts)
    )
    tunables = [tunable("ROWS", *rows), register_tunable(facts)]
    right = graph.specs[product.right.value]
    half = facts.l2_bytes // 2048  # KiB; the other half is for what else passes through
    if 4 * sizes.columns * sizes.depth > half << 10:
        tunables.append(tunable("RESIDENT", half, half // 2))
    if product.right.outer is not None and right.stride[product.right.outer] == 1:
        # Copying pays where many rows share it, and the rows of the right factor lie too far apart for the cache.
        strided = 4 * sizes.depth * right.stride[product.right.inner] > facts.l1_bytes * 3 // 4
        tunables.append(tunable("PACK", 1, 0) if strided and sizes.rows > 128 else tunable("PACK", 0, 1))
    why = "tiles of rows times vectors of columns stay in registers over the whole sum"
    tunables += _further(graph, region, facts, sizes, sizes.outputs // 256)
    return Technique("panels", why, _bottleneck(graph, region, facts, sizes), tuple(tunables))


def _tiling_cost(most: int, sizes: Sizes, facts: Facts) -> float:
    """Instructions a step of the sum takes over all tiles of at most `most` rows: multiply-adds, and loads, of
    which two go beside one of those. As the code divides rows and columns.
    """
    tiles = max(1, -(-sizes.rows // most))
    rows, columns = max(1, -(-sizes.rows // tiles)), max(1, -(-sizes.columns // facts.vector))
    vectors = min(8, columns, vectors_beside(rows, facts))
    panels = [vectors] * (columns // vectors) + [columns % vectors] * (columns % vectors > 0)
    return -(-sizes.rows // rows) * sum(max(4, rows * v) + (rows + v) / 2 for v in panels)


def _dots(graph: Graph, region: Region, facts: Facts, sizes: Sizes, gain: float) -> Technique:
    row_counts = (
        8 if facts.registers >= 32 else 4
    )  # with 8 the sums of two columns, and the rows, do not fit 16 registers
    rows = tunable("ROWS", row_counts, 4, 2) if sizes.columns <= 2 else tunable("ROWS", 4, 2, 8)
    columns = tunable("COLUMNS", 8, 4, 2) if sizes.rows == 1 else tunable("COLUMNS", row_counts // 2, 2, 4, 8)
    tunables = [t for t, n in ((rows, sizes.rows), (columns, sizes.columns)) if n > 1]
    tunables += [register_tunable(facts), *_further(graph, region, facts, sizes, sizes.outputs // 16)]
    why = "vectors run along the sum, so that factors which lie along it are read as they are"
    return Technique("dots", why, _bottleneck(graph, region, facts, sizes), tuple(tunables), gain=gain)


def _further(graph: Graph, region: Region, facts: Facts, sizes: Sizes, tasks: int) -> list[Tunable]:
    """SPLIT where there are long sums and few of them; NT."""
    tunables = [stream_tunable(graph, region, facts)]
    if sizes.depth >= 1024 and sizes.outputs <= 1 << 16:
        starved = tasks < 2 * facts.threads
        double = tunable("SPLIT", facts.threads, 1, 2 * facts.threads)
        tunables.append(double if starved else tunable("SPLIT", 1, facts.threads, 2 * facts.threads))
    return tunables


def _bottleneck(graph: Graph, region: Region, facts: Facts, sizes: Sizes) -> Bottleneck:
    moved = sum(graph.specs[v].nbytes for v in (*region.inputs, *region.outputs))
    seconds = 2 * sizes.outputs * sizes.depth / facts.flop_rate
    return "compute" if seconds > moved / facts.bandwidth else "memory"


def _workspace(named: Named, technique: Technique) -> str:
    """Bytes, at least what the code's SCRATCH and partial sums come to; in terms of task.h alone."""
    n, k, vec = f"({named.columns})", f"({named.depth})", "VEC"
    depth = f"(({k} < {MAX_DEPTH} ? {k} : {MAX_DEPTH}) + 64)"
    chosen = {t.name for t in technique.tunables}
    split, rows = (name if name in chosen else "1" for name in ("SPLIT", "ROWS"))
    parts = f"({k} > {MAX_DEPTH} * {split} ? {k} / {MAX_DEPTH} + 1 : {split})"
    partial = f"({parts} > 1 ? {parts} * {named.batch} * {named.rows} * ({n} + {vec}) : 0)"
    if technique.name.endswith("panels"):
        panels = f"({n} + 8 * {vec}) * {depth}"
        resident = "RESIDENT" if "RESIDENT" in chosen else "512"
        limit = f"256 * {resident} + 8 * {vec} * {depth}"
        panel_floats = f"({rows} + {vec}) * {depth} + ({panels} < {limit} ? {panels} : {limit})"
    else:
        panel_floats = f"({rows} + 64) * {depth} + 32"
    return f"4 * (uint64_t)(THREADS * ({panel_floats}) + {partial})"
