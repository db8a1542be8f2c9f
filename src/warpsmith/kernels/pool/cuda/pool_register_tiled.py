"""Pooling windows of a fixed size on a GPU: a thread takes a small box of outputs, PLANES_PER_THREAD by ROWS_PER_THREAD by ACROSS of them, so that
what neighbouring windows share is read once: each row of the image is combined across the windows' width, then goes to
every output of the box whose window has it.

In: the windows of up to three dimensions. Out: one kernel, general in all shapes. `prologue0` brings a pack of the image,
`epilogue` stores one of the result. ACROSS outputs advance by as many elements as PACKS_PER_THREAD packs have, so that neighbouring threads
read neighbouring packs; what their windows reach beyond comes from the cache. Rows of the result that are no whole number
of such packs go through shared memory, so that neighbouring threads store neighbouring elements all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....codegen.cuda.cuda_source import Launch
from ....codegen.templates import render
from ....codegen.writer import Writer
from ..pool_windows import Pool, Window

NO_WINDOW = Window(1, 1, 0, 1)


def emit_pool_register_tiled_kernels(
    top: Writer, pool: Pool, rank: int, sizes: Sequence[str]
) -> tuple[list[Launch], str, str]:
    """`sizes`: of the dimensions of what is pooled, as C++. Writes the constants to `top`; see `CudaAnchored.kernels`."""
    write_windows(top, pool, rank, sizes)
    launch = Launch("pool", "ws::ceil_div(TASKS, (int64_t)BLOCK)", "BLOCK", struct=True)
    return [launch], render("pool/cuda/pool_register_tiled.cuh"), ""


def write_windows(top: Writer, pool: Pool, rank: int, sizes: Sequence[str]) -> None:
    """Write the sizes of windows, image and result along D, H and W as constants, and the combination of elements."""
    space = len(pool.windows)
    padded = [NO_WINDOW] * (3 - space) + list(pool.windows)
    inner = ["1"] * (3 - space) + list(sizes[-space:])
    outer = ["1"] * (3 - space) + [f"out0_shape[{d}]" for d in range(rank - space, rank)]
    top.line(f"constexpr int RANK = {rank}, SPACE = {space};")
    for letter, window, size, count in zip("DHW", padded, inner, outer, strict=True):
        top.line(
            f"constexpr int K{letter} = {window.kernel}, S{letter} = {window.stride}, P{letter} = {window.padding}, "
            f"L{letter} = {window.dilation};  // kernel, stride, padding, dilation"
        )
        top.line(f"constexpr bool FREE_{letter} = {str(window.adaptive).lower()};  // adaptive")
        top.line(f"constexpr int64_t I{letter} = {size}, O{letter} = {count};")
    top.line(f"constexpr bool MAXIMUM = {str(pool.maximum).lower()}, PADDED = {str(pool.padded).lower()};")
    top.line(f"constexpr int64_t DIVISOR = {pool.divisor or 0};")
    lead = " * ".join(f"out0_shape[{d}]" for d in range(rank - space)) or "1"
    top.line(f"constexpr int64_t LEAD = {lead};")
    for line in render("pool/cuda/pool_windows.cuh").splitlines():
        top.line(line)
    top.line("template <class T>")  # 32 bits where they do
    with top.block("__device__ __forceinline__ void leading(T number, int64_t (&at)[RANK])"):
        for d in range(rank - space - 1, -1, -1):
            top.line(f"at[{d}] = number % (T)out0_shape[{d}];")
            top.line(f"number /= (T)out0_shape[{d}];")
