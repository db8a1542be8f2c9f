"""Convolutions on CUDA cores, plain and transposed, in one to three dimensions: a thread makes a strip of output rows below
each other, some neighbours wide, of CHANNELS output channels, so that a row of the input, once read, serves all of the
strip, and a weight all of its positions.

In: the loops of a convolution. Out: one kernel, general in all shapes. `prologue0` brings elements of the input,
`epilogue` stores what was made. Where a thread's part begins, an input position and an output position meet; from there
on which tap leads from one to the other is known when the kernel is compiled, also between the phases of a transposed
convolution: none of its zeros is read or multiplied. Only along the depth taps are picked at run time. Fewer dimensions
are three with a depth (and height) of 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....codegen.cuda.cuda_source import Launch
from ....codegen.templates import render
from ....codegen.writer import Writer
from ..convolution_pattern import Window


@dataclass(frozen=True)
class Loops:
    """`window`: as for the C++ kernels. `pack`: elements of the input in 16 bytes. `made`: channels and sizes of the
    convolution's result as C++, where that is not out0."""

    window: Window
    transposed: bool
    groups: str  # as C++
    pack: int
    staged: bool  # weights in shared memory, a block for each group of output channels
    made: tuple[str, ...] = ()
    together: str = "1"  # maps whose weights a block stages, as C++


def emit_direct_kernels(top: Writer, loops: Loops) -> tuple[list[Launch], str, str]:
    """Writes the constants to `top`; see `CudaAnchored.kernels`."""
    direct_constants(top, loops)
    blocks = "ws::ceil_div(TASKS, (int64_t)BLOCK)" + (" * MAPS" if loops.staged else "")
    launch = Launch("direct", blocks, "BLOCK", "SHARED" if loops.staged else "0", struct=True)
    return [launch], render_register_tile() + "\n" + render("conv/cuda/direct_convolution.cuh"), ""


def render_register_tile() -> str:
    """Render the function that computes a thread's register tile; requires `direct_constants`."""
    return render("conv/cuda/direct_convolution_register_tile.cuh")


def direct_constants(top: Writer, loops: Loops) -> None:
    """All that `render_register_tile` wants."""
    window, rank = loops.window, loops.window.rank
    space, weight = rank - 2, window.weight
    ones = ["1"] * (3 - space)
    kernel = [*ones, *(f"(int){weight}_shape[{d}]" for d in range(2, rank))]
    inner = [*ones, *window.extents[2:]]
    outer = [*ones, *(loops.made[1:] or [f"out0_shape[{d}]" for d in range(2, rank)])]
    strides, befores, dilations = (
        [*(default,) * (3 - space), *numbers]
        for default, numbers in ((1, window.stride), (0, window.before), (1, window.dilation))
    )
    top.line(f"constexpr int RANK = {rank}, SPACE = {space}, PACK = {loops.pack};")
    for i, letter in enumerate("DHW"):
        top.line(
            f"constexpr int K{letter} = {kernel[i]}, S{letter} = {strides[i]}, P{letter} = {befores[i]}, "
            f"L{letter} = {dilations[i]};  // kernel, stride, padding, dilation"
        )
        top.line(f"constexpr int64_t I{letter} = {inner[i]}, O{letter} = {outer[i]};")
    yes = {True: "true", False: "false"}
    top.line(f"constexpr bool TRANSPOSED = {yes[loops.transposed]}, STAGED = {yes[loops.staged]};")
    top.line(f"constexpr bool LINE = {yes[space == 1]};")
    deep, outs = (f"{weight}_shape[0] / GROUPS", f"{weight}_shape[1]")
    if not loops.transposed:
        deep, outs = outs, deep
    top.line(f"constexpr int64_t GROUPS = {loops.groups}, IMAGES = {window.extents[0]};")
    top.line(f"constexpr int64_t DEEP = {deep}, MADE = {outs};  // channels of a group: input, output")
    layout = render("conv/cuda/direct_convolution_layout.cuh", maps_per_block=loops.together)
    for line in layout.splitlines():
        top.line(line)
    _readers(top, loops)


def _readers(top: Writer, loops: Loops) -> None:
    """`weight` and `bias`."""
    window, name = loops.window, loops.window.weight
    outer, inner = ("(int64_t)group * DEEP + channel", "made")
    if not loops.transposed:
        outer, inner = "(int64_t)group * MADE + made", "channel"
    taps = ["kz", "ky", "kx"][5 - window.rank :]
    terms = " + ".join(f"({index}) * {name}_stride[{d}]" for d, index in enumerate([outer, inner, *taps]))
    head = "__device__ __forceinline__ float"
    numbers = ", ".join(f"[[maybe_unused]] int {n}" for n in ("group", "made", "channel", "kz", "ky", "kx"))
    with top.block(f"{head} weight(const Operands& o, {numbers})"):
        top.line(f"return ws::load_as(o.{name}[{terms}]);")
    with top.block(f"{head} bias([[maybe_unused]] const Operands& o, [[maybe_unused]] int64_t channel)"):
        bias = window.bias
        top.line(f"return ws::load_as(o.{bias}[channel * {bias}_stride[0]]);" if bias else "return 0.0f;")
