"""Matrix products on a GPU, with the pointwise nodes after them.

In: mm, addmm, bmm, baddbmm, mv, addmv, dot, linear or matmul, any strides; a triangle that is kept of the product is part
of it. Out: units in the techniques `gemm-3xfp16`, `gemm-3xfp16-small-m` (few rows) and `gemm-3xtf32` (float32, as exact as plain float32: see
`gemm_3xfp16` and `gemm_3xtf32`) and `skinny` (few rows or columns, fp16 too: see
`gemm_skinny`), `gemm-small-m-mma` (few tokens of fp16 and bf16, quantised weights too: see `gemm_small_m_mma`), `gemm-tma-wgmma` and `gemm-tma-wgmma-ping-pong` (fp16 and bf16 on Hopper: see `gemm_tma_wgmma`). Declines other products of halves.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ....codegen.cuda.cuda_source import Launch
from ....codegen.fusion.op_chain import Chain
from ....codegen.fusion.packed_values import find_packed_sources
from ....codegen.lowering.axis_relations import base_name
from ....codegen.lowering.op_builder import option
from ....codegen.program import Unsupported
from ....codegen.writer import Writer
from ....facts import Facts
from ....records import ITEM_BYTES, Graph, Node, Region
from ....targets.tensor_maps import TensorMap
from ...anchored import Anchor, Core
from ...costs import region_bytes
from ...cuda_anchored import CudaAnchored
from ...cuda_unit import stream
from ...family import Technique
from ..gathered_factor import GatheredFactor, find_gathered_factor
from ..matmul_pattern import MatMulPattern, Sizes, triangle_of
from ..product import Named, Product, product_of
from ..schedules.gemm_3xfp16_schedule import build_3xfp16_technique, build_small_m_technique
from ..schedules.gemm_3xtf32_schedule import build_3xtf32_technique
from ..schedules.gemm_skinny_schedule import build_skinny_technique
from ..schedules.gemm_small_m_mma_schedule import build_small_m_mma_technique
from ..schedules.gemm_tma_wgmma_schedule import build_tma_wgmma_techniques
from .gemm_3xfp16 import INCLUDE as WGMMA
from .gemm_3xfp16 import emit_3xfp16_kernels
from .gemm_3xtf32 import INCLUDE as MMA
from .gemm_3xtf32 import emit_3xtf32_kernels
from .gemm_operands import (
    GATHERED,
    CudaProduct,
    MatrixTable,
    Triangle,
    combining,
    declare,
    finish,
    parts_bytes,
)
from .gemm_skinny import MOST, Skinny, emit_skinny_kernels, skinny_slice
from .gemm_small_m import emit_small_m_kernels
from .gemm_small_m_mma import (
    WeightSource,
    declare_small_m,
    emit_small_m_mma_kernels,
    find_dual_small_m,
    find_weight_source,
    takes_small_m,
)
from .gemm_tma_wgmma import (
    CONSTANTS,
    NAMES,
    emit_tma_wgmma_kernels,
    make_tensor_maps,
    paste_gemm,
    takes_tensor_maps,
)
from .split_fp16 import split_fp16_bytes

ALGEBRAIC = "algebraic-"  # how techniques are called that do fewer operations than the graph
SMALL_M_MMA = "gemm-small-m-mma"
WGMMA_ARCH = "sm_90a"  # the instructions are of this architecture alone


class CudaMatMul(MatMulPattern, CudaAnchored):
    def supports(self, graph: Graph, node: Node) -> bool:
        try:
            gemm = product_of(graph, node)
        except Unsupported:
            return False
        skinny = _skinny(graph, node, gemm) is not None
        small_m = takes_small_m(graph, node, gemm)
        return (
            node.output.spec.dtype == "float32" or skinny or small_m or takes_tensor_maps(graph, node, gemm)
        )

    def prologues(self, graph: Graph, node: Node) -> tuple[str, ...]:
        """None but for the weight of few tokens: each element of another factor is read by many blocks."""
        return ()

    def core(self, graph: Graph, node: Node, within: Collection[str]) -> Core:
        """Few tokens: the weight is read through a prologue, and the reshapes between and the unpacking of bytes are the product's own. So is
        the index that picks the matrices of a skinny one.
        """
        if (dual := find_dual_small_m(graph, node)) is not None and dual.nodes <= set(within):
            products = tuple(n.name for n in graph.nodes if n.name in (dual.first.name, dual.second.name))
            return Core(products, dual.first.output.name, (), second=dual.second.output.name)
        gemm, core = product_of(graph, node), super().core(graph, node, within)
        if len(core.nodes) > 1:
            return core
        if (gathered := _find_gathered(graph, node, gemm)) is not None and gathered.node in within:
            return Core((gathered.node, node.name), node.output.name, ())
        if not takes_small_m(graph, node, gemm):
            return core
        source = find_weight_source(graph, gemm)
        if not set(source.views) <= set(within):
            source = WeightSource(gemm.right.value)
        unpacking = tuple(n for p in find_packed_sources(graph, source.value) for n in p.nodes)
        if not set(unpacking) <= set(within):
            unpacking = ()
        return Core((*unpacking, *source.views, node.name), node.output.name, (source.value,))

    def chains_before(self, anchor: Anchor) -> list[Chain]:
        """One where the weight is not an operand as it is."""
        return super().chains_before(anchor) if _is_dequantised(anchor) else []

    def write_chains_before(self, w: Writer, anchor: Anchor, axis: int) -> None:
        """None: the kernel of few tokens writes its own, in two steps."""

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        anchor = self.anchor(graph, region)
        if anchor is None:
            return []
        gemm = product_of(graph, anchor.node)
        sizes = Sizes(*gemm.sizes(graph, anchor.node))
        moved, hardware = region_bytes(graph, region), facts.hardware
        storing = stream(graph, region, hardware)
        techniques: list[Technique | None] = []
        if takes_small_m(graph, anchor.node, gemm) and _triangle(anchor) is None:
            dequantised = _is_dequantised(anchor)
            bits = _count_weight_bits(self.chains_before(anchor)) if dequantised else 16
            small_m = build_small_m_mma_technique(
                hardware, sizes, bits, moved, storing, splits=not anchor.second
            )
            if dequantised or anchor.second:
                return [small_m]
            techniques.append(small_m)
        if (skinny := _skinny(graph, anchor.node, gemm)) is not None:
            if (gathered := _find_own_gathered(anchor)) is not None:
                moved -= graph.specs[gathered.table].nbytes  # only what is picked is read
                moved += graph.by_name[gathered.node].output.spec.nbytes
                return [build_skinny_technique(hardware, sizes, skinny, moved, storing)]
            techniques.append(build_skinny_technique(hardware, sizes, skinny, moved, storing))
        hopper = facts.arch in ("", WGMMA_ARCH)
        if hopper and takes_tensor_maps(graph, anchor.node, gemm) and _triangle(anchor) is None:
            techniques += build_tma_wgmma_techniques(hardware, sizes, moved, storing)
        if anchor.node.output.spec.dtype == "float32":
            share = 1.0 if _triangle(anchor) is None else 0.5
            shape = sizes.batch, sizes.rows, sizes.columns, sizes.depth
            if hopper:
                techniques.append(build_3xfp16_technique(hardware, *shape, moved, share, storing))
                if _along(graph, gemm) and share == 1.0:
                    techniques.append(build_small_m_technique(hardware, *shape, moved, storing))
            techniques.append(build_3xtf32_technique(hardware, sizes, moved, share, storing))
        offered = sorted((t for t in techniques if t is not None), key=lambda t: t.us or 0.0)
        fewer = _triangle(anchor) is not None  # what is outside is not computed: fewer operations
        return [replace(t, name=ALGEBRAIC + t.name) for t in offered] if fewer else offered

    def kernels(self, top: Writer, anchor: Anchor, technique: Technique) -> tuple[list[Launch], str, str]:
        named_product = _read_product(anchor)
        named = named_product.named
        if technique.name == SMALL_M_MMA:
            return _write_small_m(top, anchor, named_product)
        workspace, name = parts_bytes(named), technique.name.removeprefix(ALGEBRAIC)
        if name in ("gemm-3xfp16", "gemm-3xfp16-small-m"):
            top.line(WGMMA)
            small_m = name == "gemm-3xfp16-small-m"
            launches, text = (emit_small_m_kernels if small_m else emit_3xfp16_kernels)(
                named.left, named.right
            )
            workspace = split_fp16_bytes(named, both=not small_m)
        elif name in NAMES:
            widths = next(t.domain for t in technique.tunables if t.name == "BN")
            for line in (*paste_gemm(widths, anchor.node.output.spec.dtype).splitlines(), CONSTANTS):
                top.line(line)
            launches, text = emit_tma_wgmma_kernels(named, ping_pong=name == NAMES[1])
            workspace = ""  # no sum is split
        elif name == "gemm-3xtf32":
            top.line(MMA)
            launches, text = emit_3xtf32_kernels(named.left, named.right)
        else:
            skinny = _skinny(anchor.graph, anchor.node, named.product)
            assert skinny is not None  # techniques() offers it for no other
            top.line(skinny_slice(skinny))
            launches, text = emit_skinny_kernels(named, skinny, named_product.table)
        declare(top, named_product)
        w = Writer()
        finish(w, named_product)
        return [*launches, *([combining()] if workspace else [])], w.text() + text, workspace

    def tensor_maps(
        self, anchor: Anchor, technique: Technique
    ) -> tuple[tuple[TensorMap, ...], tuple[str, ...]]:
        if technique.name not in NAMES:
            return (), ()
        return make_tensor_maps(_read_product(anchor).named)


def _write_small_m(top: Writer, anchor: Anchor, made: CudaProduct) -> tuple[list[Launch], str, str]:
    named = made.named
    tokens = anchor.names[named.product.left.value]
    depth = f"{tokens}_shape[{named.product.left.inner}]"
    dual = bool(anchor.second)
    other = product_of(anchor.graph, anchor.graph.producer[anchor.second]).right.value if dual else ""
    w = Writer()
    declare_small_m(top, made, depth, weights=1 + dual)
    finish(w, made, dual)
    launches = emit_small_m_mma_kernels(w, anchor, tokens, named.product, other)
    return (launches, w.text(), "") if dual else ([*launches, combining()], w.text(), parts_bytes(named))


def _is_dequantised(anchor: Anchor) -> bool:
    """Tell whether the unit computes the weight, which is then none of its operands."""
    return product_of(anchor.graph, anchor.node).right.value not in anchor.names


def _count_weight_bits(chains: list[Chain]) -> int:
    """Bits of a weight as it is stored, of the widest operand that has an element for each, where chains compute what the product reads."""
    moving = [o for c in chains for o in c.program.inputs if len(c.stored[0][0].axes) - 1 in o.axes]
    return max((4 if o.nibbles is not None else 8 * ITEM_BYTES[o.dtype] for o in moving), default=16)


def _read_product(anchor: Anchor) -> CudaProduct:
    node = anchor.graph.producer[anchor.value] if anchor.second else anchor.node
    gemm, names = product_of(anchor.graph, node), dict(anchor.names)
    table = None
    if (gathered := _find_own_gathered(anchor)) is not None:
        specs = anchor.graph.specs
        names[anchor.graph.by_name[gathered.node].output.name] = GATHERED
        table = MatrixTable(
            names[gathered.table], names[gathered.rows], len(specs[gathered.table].shape), gathered.rank
        )
    addend = names[gemm.addend] if gemm.addend is not None else ""
    shape = anchor.graph.specs[gemm.addend].shape if gemm.addend is not None else ()
    out = names[anchor.region.outputs[0]]
    named = Named(gemm, names[gemm.left.value], names.get(gemm.right.value, ""), addend, out)
    return CudaProduct(named, shape, _triangle(anchor), table)


def _find_gathered(graph: Graph, node: Node, product: Product) -> GatheredFactor | None:
    """Find the table that the big factor of a skinny product is picked from."""
    skinny = _skinny(graph, node, product)
    if skinny is None:
        return None
    return find_gathered_factor(graph, product, product.right if skinny.right else product.left)


def _find_own_gathered(anchor: Anchor) -> GatheredFactor | None:
    """Find it where the unit does the picking."""
    gathered = _find_gathered(anchor.graph, anchor.node, product_of(anchor.graph, anchor.node))
    return gathered if gathered is not None and gathered.node in anchor.region.nodes else None


def _along(graph: Graph, made: Product) -> bool:
    """Tell whether neighbours of the right factor lie along the sum."""
    return graph.specs[made.right.value].stride[made.right.inner] == 1


def _triangle(anchor: Anchor) -> Triangle | None:
    node = triangle_of(anchor)
    if node is None:
        return None
    return Triangle(base_name(node) == "tril", int(option(node, 1, "diagonal", 0)))


def _skinny(graph: Graph, node: Node, made: Product) -> Skinny | None:
    """Which factor is the big one where the other has few rows, and its neighbours lie along the sum or across it; None
    where there is no such factor. One along the sum comes first."""
    sizes = Sizes(*made.sizes(graph, node))
    rows = [d for r in made.rows if (d := made.left.dims[r]) is not None]
    candidates = (
        (sizes.rows, sizes.columns, made.right, [d for d in (made.right.outer,) if d is not None]),
        (sizes.columns, sizes.rows, made.left, rows),
    )
    skinny = []
    for short_side, long_side, big, lines in candidates:
        spec = graph.specs[big.value]
        contiguous = spec.stride[big.inner] == 1 or spec.shape[big.inner] == 1
        across = len(lines) == 1 and spec.stride[lines[0]] == 1
        if short_side <= MOST and (contiguous or across):
            skinny.append((not contiguous, -long_side, Skinny(right=big is made.right, along=contiguous)))
    return min(skinny, key=lambda f: f[:2])[2] if skinny else None
