"""Implicit GEMM of convolutions and transposed ones in TF32 (`mma.sync`), without the matrix of all windows that gave implicit GEMM its
name: a block copies the patch of the input that a tile of outputs reads to shared memory, a chunk of channels at a time,
and every tap reads the same patch, shifted. Rows of the product are pixels, columns output channels, terms of its sums
taps times input channels. TF32 as torch's convolutions by default: inputs rounded to nearest, sums in float32.

A transposed convolution falls into phases, the remainders of the output's coordinates modulo the stride; each is a
convolution of stride 1 with taps of its own, so that no zeros are multiplied.

In: a convolution's numbers and the names of its operands. Out: two kernels, `pack` (the weights, into the workspace, in
the order of use) and `convolve`, general in all shapes. `epilogue` stores the result.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....codegen.cuda.cuda_source import Launch
from ....codegen.templates import render
from ....codegen.writer import Writer


@dataclass(frozen=True)
class Convolved:
    """Stride, padding before and dilation: one for each spatial dimension. `source`, `weight`, `bias`: operands, "" for
    no bias. `made`: channels and sizes of the convolution's result as C++, where that is not out0."""

    stride: tuple[int, ...]
    before: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    groups: str  # as C++
    source: str
    weight: str
    bias: str
    made: tuple[str, ...] = ()

    def size(self, dimension: int) -> str:
        """Return a size of the result, dimension 0 being the channels."""
        return self.made[dimension] if self.made else f"out0_shape[{1 + dimension}]"

    @property
    def space(self) -> int:
        return len(self.stride)

    @property
    def lists(self) -> int:
        """Phases of the output: each has taps of its own."""
        phases = 1
        for stride in self.stride if self.transposed else ():
            phases *= stride
        return phases


def emit_tf32_kernels(top: Writer, shape: Convolved, epilogue: str = "") -> tuple[list[Launch], str, str]:
    """Writes the constants to `top`; see `CudaAnchored.kernels`. Tunables: TILE_PIXELS, CHANNELS, PIXELS_W, PIXELS_D, CHUNK, K_STEPS_PER_STAGE,
    STAGES, MMA_TILES_PER_WARP and NT. `epilogue`: CUDA C++ that takes a tile of results, see `store_tile`; "": stores them."""
    top.line('#include "warpsmith_cuda_mma.h"')
    numbers(top, shape)
    for line in _render_layout().splitlines():
        top.line(line)
    kernels = render(
        "conv/cuda/pack_weights_tf32.cuh", slice_of_block=render_slice_of_block(), weight=weight_of(shape)
    )
    kernels += "\n" + bias_of(shape)
    epilogue = (epilogue or store_tile()).rstrip("\n")
    kernels += render("conv/cuda/implicit_gemm_tf32_mma.cuh", source=shape.source, epilogue=epilogue)
    launches = [
        Launch("pack", "(int64_t)ALL_SLICES * BLOCKS_OUT * GROUPS", "256", extra="(uint32_t*)workspace", struct=True),
        Launch("convolve", "BLOCKS", "THREADS", "SHARED", "(const uint32_t*)workspace, (char*)workspace + SPARE_AT", struct=True),
    ]  # fmt: skip
    return launches, kernels, _workspace(shape)


def _render_layout() -> str:
    """Constants: the grid, and where everything lies."""
    texts = (
        render("conv/cuda/convolution_axes.cuh"), render("conv/cuda/implicit_gemm_tf32_tile.cuh"), render_grid(),
        render("conv/cuda/implicit_gemm_tf32_layout.cuh", slice_counts=render_slice_counts()),
    )  # fmt: skip
    return "".join(texts)


def render_grid() -> str:
    """Render the constants of the TF32 and fp16 implicit GEMMs: phases and tiles of the output."""
    return render("conv/cuda/convolution_phases.cuh") + render("conv/cuda/implicit_gemm_grid.cuh")


def render_slice_counts() -> str:
    """Members of a table that says how many slices of the weights a list (a phase) has."""
    return render("conv/cuda/implicit_gemm_slice_counts.cuh").rstrip("\n")


def render_slice_of_block() -> str:
    """Says which slice of the weights a block packs."""
    return render("conv/cuda/implicit_gemm_slice_of_block.cuh").rstrip("\n")


def store_tile() -> str:
    """Render the store of a tile of results of the TF32 or fp16 implicit GEMM to the outputs.

    In: `staged` in shared memory, which all threads see: the result without bias of channel c of the block and pixel p of its
    tile at staged[c * STAGED + p], with p = ((z * TILE_H + y) * TILE_W + x) * INNER + inner phase; what lies outside the image
    or beyond the last channel may be anything. In scope: image, group, block (of channels), outer (phase), x0, y0, z0 (the
    tile's first place in the grid), `spare` (workspace behind the kernels' own) and the constants of `render_grid`. It may change
    `staged` and wait for the block; no thread returns, for a block may make several tiles.
    """
    return render("conv/cuda/implicit_gemm_store.cuh")


def weight_of(shape: Convolved) -> str:
    """An element, of `group`, `out`, `in`, `kd`, `kh` and `kw`."""
    taps = ["kd", "kh", "kw"][3 - shape.space :]
    first = [f"(group * INS + in) * {shape.weight}_stride[0]", f"out * {shape.weight}_stride[1]"]
    if not shape.transposed:
        first = [f"(group * OUTS + out) * {shape.weight}_stride[0]", f"in * {shape.weight}_stride[1]"]
    terms = " + ".join([*first, *(f"{k} * {shape.weight}_stride[{2 + i}]" for i, k in enumerate(taps))])
    return f"o.{shape.weight}[{terms}]"


def bias_of(shape: Convolved) -> str:
    """A device function."""
    value = f"ws::load_as(o.{shape.bias}[channel * {shape.bias}_stride[0]])" if shape.bias else "0.0f"
    head = "__device__ __forceinline__ float bias_of([[maybe_unused]] const Operands& o, [[maybe_unused]] int64_t channel)"
    return f"{head} {{ return {value}; }}\n"


def numbers(w: Writer, shape: Convolved) -> None:
    space, rank = shape.space, shape.space + 2
    w.line(f"constexpr int RANK = {rank}, SPACE = {space}, GROUPS = {shape.groups};")
    w.line(f"constexpr bool TRANSPOSED = {str(shape.transposed).lower()};")
    x, k = shape.source, shape.weight
    for i, letter in enumerate("DHW"):
        d = i - (3 - space)
        stride, before, dilation = (
            (shape.stride[d], shape.before[d], shape.dilation[d]) if d >= 0 else (1, 0, 1)
        )
        size, jump = (f"{x}_shape[{2 + d}]", f"{x}_stride[{2 + d}]") if d >= 0 else ("1", "0")
        taps, extent = (f"(int){k}_shape[{2 + d}]", shape.size(1 + d)) if d >= 0 else ("1", "1")
        w.line(
            f"constexpr int K{letter} = {taps}, S{letter} = {stride}, P{letter} = {before}, "
            f"L{letter} = {dilation};  // taps, stride, padding, dilation"
        )
        w.line(f"constexpr int64_t I{letter} = {size}, O{letter} = {extent}, JUMP_{letter} = {jump};")
    w.line(f"constexpr int64_t IMAGES = {x}_shape[0], JUMP_N = {x}_stride[0], JUMP_C = {x}_stride[1];")
    w.line(
        f"constexpr int64_t INS = {x}_shape[1] / GROUPS, OUTS = {shape.size(0)} / GROUPS;  // channels of a group"
    )
    w.line(
        "static_assert((ID - 1) * JUMP_D + (IH - 1) * JUMP_H + (IW - 1) * JUMP_W < 0x7fffffff, "
        '"requires: images of less than 2^31 elements a channel");'
    )


def channels_of(shape: Convolved) -> tuple[str, str, str]:
    """Input and output channels of a group, and taps."""
    weight = shape.weight
    taps = " * ".join(f"{weight}_shape[{2 + d}]" for d in range(shape.space))
    ins, outs = f"{weight}_shape[1]", f"{weight}_shape[0] / {shape.groups}"
    if shape.transposed:
        ins, outs = f"{weight}_shape[0] / {shape.groups}", f"{weight}_shape[1]"
    return ins, outs, taps


def _workspace(shape: Convolved) -> str:
    """Bytes of the packed weights at the most: each list's last slice may be part empty."""
    ins, outs, taps = channels_of(shape)
    chunks, blocks = f"(({ins} + CHUNK - 1) / CHUNK)", f"(({outs} + CHANNELS - 1) / CHANNELS)"
    slices = f"(({taps} * (CHUNK / 4) + 2 * K_STEPS_PER_STAGE - 1) / (2 * K_STEPS_PER_STAGE) + {shape.lists})"
    return f"(uint64_t){shape.groups} * {blocks} * {chunks} * {slices} * (K_STEPS_PER_STAGE * 8 * CHANNELS * 4) + 256"
