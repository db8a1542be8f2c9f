"""Implicit GEMM of convolutions and transposed ones on scaled fp16 (`wgmma`, sm_90a).

It differs from `implicit_gemm_tf32` in that a block casts the patch of the input that its outputs read to fp16, 8 channels of a
pixel side by side, and the tensor cores read it where it lies: descriptors lead to 8 x 8 outputs, or 64 of a row, of every tap. fp16
keeps as many bits of the fraction as TF32, at twice the rate and half the bytes; what it lacks in exponents scales make
up for: powers of two, one an output channel for the weights, one for all of a patch so far, with which sums are scaled
down where a later chunk of channels has larger elements. With three products (`terms`) each element is the sum of two
fp16 numbers, 22 bits, and 64 terms at a time are added on CUDA cores, as in `gemm_3xfp16`: float32's precision.

In: a convolution's numbers and the names of its operands. Out: three kernels, `powers`, `pack` (both of the weights) and
`convolve`, general in all shapes.
"""

from __future__ import annotations

from ....codegen.cuda.cuda_source import Launch
from ....codegen.templates import render
from ....codegen.writer import Writer
from ...gemm.cuda.gemm_3xfp16 import INCLUDE
from .implicit_gemm_tf32 import (
    Convolved,
    bias_of,
    channels_of,
    numbers,
    render_grid,
    render_slice_counts,
    render_slice_of_block,
    store_tile,
    weight_of,
)


def emit_fp16_kernels(
    top: Writer, shape: Convolved, terms: int, epilogue: str = ""
) -> tuple[list[Launch], str, str]:
    """Writes the constants to `top`; see `CudaAnchored.kernels`. `terms`: 1 or 3. Tunables: TILE_PIXELS, PIXELS_W, PIXELS_D, CHANNELS,
    WARPGROUPS, CHUNK (a multiple of 8), K_STEPS_PER_STAGE, STAGES, SM_COUNT (multiprocessors; right with any number) and NT. `epilogue`: see `emit_tf32_kernels`."""
    top.line(INCLUDE)
    top.line(f"constexpr int TERMS = {terms};  // products for one of floats")
    numbers(top, shape)
    for line in _render_layout().splitlines():
        top.line(line)
    weight, epilogue = weight_of(shape), (epilogue or store_tile()).rstrip("\n")
    kernels = render("conv/cuda/fp16_scales.cuh", weight=weight)
    kernels += render(
        "conv/cuda/pack_weights_split_fp16.cuh", slice_of_block=render_slice_of_block(), weight=weight
    )
    kernels += "\n" + bias_of(shape)
    kernels += render("conv/cuda/implicit_gemm_split_fp16.cuh", source=shape.source, epilogue=epilogue)
    packed, exponents = "(unsigned char*)workspace", "(int*)((char*)workspace + PACKED_BYTES)"
    spare = "(char*)workspace + SPARE_AT"
    launches = [
        Launch("powers", "OUTS * GROUPS", "128", extra=exponents, struct=True),
        Launch("pack", "(int64_t)ALL_SLICES * BLOCKS_OUT * GROUPS", "256", extra=f"{packed}, {exponents}", struct=True),
        Launch("convolve", "COMBOS * ALONG", "THREADS", "SHARED", f"{packed}, {exponents}, {spare}", struct=True),
    ]  # fmt: skip
    return launches, kernels, _workspace(shape, terms)


def _render_layout() -> str:
    """Constants: how the sum is cut into vectors of 8 channels, where the patch and the weights lie, what a block makes."""
    texts = (
        render("conv/cuda/convolution_axes.cuh"), render("conv/cuda/implicit_gemm_split_fp16_tile.cuh"), render_grid(),
        render("conv/cuda/implicit_gemm_k16_steps.cuh"),
        render("conv/cuda/implicit_gemm_split_fp16_layout.cuh", slice_counts=render_slice_counts()),
    )  # fmt: skip
    return "".join(texts)


def _workspace(shape: Convolved, terms: int) -> str:
    """Bytes at the most: packed weights, of which each list's last slice may be part empty, and their exponents."""
    ins, outs, taps = channels_of(shape)
    chunks, blocks = f"(({ins} + CHUNK - 1) / CHUNK)", f"(({outs} + CHANNELS - 1) / CHANNELS)"
    steps = f"({taps} * (CHUNK / 8) + {shape.lists + 1}) / 2"
    slices, step = (
        f"({steps} / K_STEPS_PER_STAGE + {shape.lists})",
        f"(K_STEPS_PER_STAGE * {64 if terms == 3 else 32} * CHANNELS)",
    )
    return f"(uint64_t){shape.groups} * ({blocks} * {chunks} * {slices} * {step} + 4 * {outs}) + 256"
