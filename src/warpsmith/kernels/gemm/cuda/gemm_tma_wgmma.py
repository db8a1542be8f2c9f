"""A half-precision product by TMA and wgmma, with any epilogue: `hopper/gemm_tma_wgmma.cuh` in a unit.

In: a product that `gemm_operands` has declared. Out: its kernel, its tensor maps, and what they require: factors whose neighbours lie
along rows that begin at multiples of 16 bytes. The right factor is stored by rows (K x N) or transposed (N x K).
"""

from __future__ import annotations

from collections.abc import Sequence

from ....codegen.cuda.cuda_source import Launch
from ....codegen.lowering.op_builder import HALF_TYPES
from ....codegen.templates import render
from ....records import Graph, Node, TensorSpec
from ....targets.tensor_maps import TensorMap
from ..product import Named, Product
from ..schedules.gemm_tma_wgmma_schedule import SHAPE_M, SHAPE_N, TILE_K
from .hopper.hopper_sources import KERNELS, paste_kernel

NAMES = ("gemm-tma-wgmma", "gemm-tma-wgmma-ping-pong")
SWIZZLE_BYTES = 128  # a panel of 64 halves
LINE = 8  # halves in 16 bytes
CONSTANTS = f"constexpr int BK = {TILE_K}, SPLIT = 1;"


def takes_tensor_maps(graph: Graph, node: Node, product: Product) -> bool:
    """Tell whether both factors are matrices of halves that a copy engine can move."""
    specs = [graph.specs[f.value] for f in (product.left, product.right)]
    if (
        node.output.spec.dtype not in HALF_TYPES
        or product.batch
        or not product.rows
        or len(specs[1].shape) != 2
    ):
        return False
    rows_last = product.left.inner == len(specs[0].shape) - 1 and product.right.outer is not None
    return rows_last and all(map(_is_matrix, specs))


def is_transposed(product: Product) -> bool:
    """Tell whether the right factor is stored N x K."""
    return product.right.inner == 1


def make_tensor_maps(named: Named) -> tuple[tuple[TensorMap, ...], tuple[str, ...]]:
    """Return the maps of both factors, and what they require. Blocks of a cluster load a share each of what they have in common."""
    rows = "BN" if is_transposed(named.product) else str(TILE_K)
    left_box, right_box = (f"BM / {SHAPE_N}", str(TILE_K)), (f"{rows} / {SHAPE_M}", str(TILE_K))
    maps = (
        TensorMap(name="LEFT", buffer=named.left, box=left_box, swizzle=SWIZZLE_BYTES),
        TensorMap(name="RIGHT", buffer=named.right, box=right_box, swizzle=SWIZZLE_BYTES),
    )
    inner = named.product.left.inner
    return maps, (f"{named.left}_shape[{inner}] % {LINE} == 0", f"{named.right}_shape[1] % {LINE} == 0")


def paste_gemm(widths: Sequence[int], dtype: str) -> str:
    """Return the kernel that all such units share, which goes before their constants. Its products are written out for the widths of
    tiles that the unit may take: a unit's inline assembly is one literal text. task.h has the driver's header.
    """
    products = {"wgmma_products.cuh": write_wgmma(widths, dtype)}
    return paste_kernel(KERNELS[0], products).replace("#include <cuda.h>\n", "")


def write_wgmma(widths: Sequence[int], dtype: str) -> str:
    """Write `wgmma` for factors of one type and these widths, multiples of 8."""
    kind = {"float16": "f16", "bfloat16": "bf16"}[dtype]
    bodies = " else ".join(_write_product(width, kind) for width in sorted(widths))
    return render("gemm/cuda/gemm_tma_wgmma_products.cuh", products=bodies)


def _write_product(width: int, kind: str) -> str:
    """One instruction: its accumulators are the first operands, then both descriptors, whether to add, and both orders."""
    count = width // 2
    left_operand, right_operand, add, left_order, right_order = range(count, count + 5)
    names = [", ".join(f"%{i}" for i in range(k, min(k + 16, count))) for k in range(0, count, 16)]
    sums = [", ".join(f'"+f"(d[{i}])' for i in range(k, min(k + 8, count))) for k in range(0, count, 8)]
    listed = "".join(
        f'        "{line}{"," if k + 1 < len(names) else ""} "\n' for k, line in enumerate(names)
    )
    operands = ",\n          ".join(sums)
    return (
        f"if constexpr (N == {width}) {{\n"
        f'    asm volatile(\n        "{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{add}, 0;\\n"\n'
        f'        "wgmma.mma_async.sync.aligned.m64n{width}k16.f32.{kind}.{kind} {{"\n{listed}'
        f'        "}}, %{left_operand}, %{right_operand}, p, 1, 1, %{left_order}, %{right_order};\\n}}"\n'
        f"        : {operands}\n"
        '        : "l"(left), "l"(right), "r"(accumulate), "n"(LEFT_MN_MAJOR), "n"(RIGHT_MN_MAJOR));\n  }'
    )


def emit_tma_wgmma_kernels(named: Named, ping_pong: bool) -> tuple[list[Launch], str]:
    kernel = render(
        "gemm/cuda/gemm_tma_wgmma_unit.cuh",
        ping_pong=str(ping_pong).lower(),
        transposed=str(is_transposed(named.product)).lower(),
    )
    maps = "maps[MAP_LEFT], maps[MAP_RIGHT]"
    launch = Launch(
        "product", "GEMM_BLOCKS", "GemmPlan::THREADS", "GemmPlan::SHARED_BYTES", extra=maps, struct=True
    )
    return [launch], kernel


def _is_matrix(spec: TensorSpec) -> bool:
    """Tell whether rows are as far apart as they are long, or are those of a matrix, at multiples of 16 bytes."""
    shape, stride = spec.shape, spec.stride
    folds = all(stride[d] == shape[d + 1] * stride[d + 1] for d in range(len(shape) - 2))
    return (
        stride[-1] == 1
        and folds
        and stride[-2] >= shape[-1]
        and stride[-2] % LINE == 0
        and shape[-1] % LINE == 0
    )
