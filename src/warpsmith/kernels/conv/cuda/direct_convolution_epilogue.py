"""What follows a direct convolution, in the thread that made the results: they are in its registers.

In: the loops of a convolution with weights in shared memory, and `convolution_epilogue.Epilogue`. Out: the kernels, as `direct` has them:
a thread makes the planes of its windows one after the other. Where channels are reduced and a thread makes some of them
only, its neighbours make the others, and they merge their states.
"""

from __future__ import annotations

from dataclasses import replace

from ....codegen.cuda.cuda_source import Launch
from ....codegen.program import Program
from ....codegen.templates import render
from ....codegen.writer import Writer
from .channel_steps import Walk, column_steps
from .convolution_epilogue import Epilogue, apply_after_pool, combining, finish, finish_launch, windows
from .direct_convolution import Loops, direct_constants, render_register_tile


def emit_direct_epilogue_kernels(
    top: Writer, loops: Loops, epilogue: Epilogue
) -> tuple[list[Launch], str, str]:
    """Writes the constants to `top`; see `CudaAnchored.kernels`."""
    # Neighbouring threads make the channels of a place that are reduced.
    together = epilogue.columns is not None
    shared = "(int)power_of(BLOCKS)" if together else "1"
    direct_constants(top, replace(loops, together=shared))
    layout = render("conv/cuda/direct_convolution_window_layout.cuh", **windows(epilogue))
    if together:
        layout += render("conv/cuda/direct_convolution_channel_reduction_layout.cuh")
    for line in layout.splitlines():
        top.line(line)
    kernel = render(
        "conv/cuda/direct_convolution_epilogue.cuh",
        map="(int)threadIdx.x % TOGETHER" if together else "(int)(blockIdx.x % (unsigned)MAPS)",
        tile="blockIdx.x" if together else "blockIdx.x / (unsigned)MAPS",
        pointwise="row = epilogue_before_pool<1>(o, row, at);" if epilogue.before_pool else "",
        epilogue=_end(epilogue).rstrip("\n"),
        **combining(epilogue),
    )
    launch = Launch(
        "direct",
        "IMAGES * TILES" if together else "IMAGES * TILES * MAPS",
        "BLOCK",
        "SHARED",
        "(float*)workspace",
        struct=True,
    )
    launches = [launch, *([finish_launch(epilogue, "workspace")] if epilogue.summed else [])]
    return (
        launches,
        f"{render_register_tile()}\n{kernel}\n{finish(epilogue)}",
        _sums_bytes(loops, epilogue) if epilogue.summed else "",
    )


def _end(epilogue: Epilogue) -> str:
    if epilogue.columns is not None:
        return _columns(epilogue.columns)
    if epilogue.summed:
        return render("conv/cuda/direct_convolution_epilogue_sum.cuh", value=apply_after_pool(epilogue))
    return render("conv/cuda/direct_convolution_epilogue_store.cuh")


def _columns(program: Program) -> str:
    w = Writer()
    walk = Walk(
        "for (int q = 0; q < CHANNELS; q++)", "", "pooled[q][high][low]", "inside", "inside && from == 0",
        "ws::group_merge<TOGETHER>({});", "const int c = from + q; if (!ALL_THERE && c >= MADE) continue;",
    )  # fmt: skip
    w.line("at[1] = 0;")
    w.line("#pragma unroll")
    with w.block("for (int high = 0; high < PART_H; high++)"):
        w.line("#pragma unroll")
        with w.block("for (int low = 0; low < PART_W; low++)"):
            w.line("const bool inside = there(high, low);")
            w.line("if (inside) index(z, (int64_t)strip * PART_H + high, (int64_t)across * PART_W + low);")
            w.line("else index(0, 0, 0);")
            column_steps(w, program, walk)
    return "".join(f"  {line}\n" for line in w.text().splitlines())


def _sums_bytes(loops: Loops, epilogue: Epilogue) -> str:
    """Return the bytes of partial sums that blocks store for `finish`, at the most: a float each channel of blocks that make one position a thread."""
    n, c, *sizes = [loops.window.extents[0], *loops.made]
    positions = " * ".join([*sizes])
    return f"(uint64_t){n} * ({positions} / BLOCK + 1) * {c} * 4"
