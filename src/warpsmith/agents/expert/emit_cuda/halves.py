"""Convolutions and transposed ones by warpgroup (`wgmma`, sm_90a) on halves, without a matrix of windows.

As `implicit`, but a block turns the patch of the input that its outputs read into halves, 8 channels of a pixel side by
side, and the tensor cores read it where it lies: descriptors lead to 8 x 8 outputs, or 64 of a row, of every tap. Halves
keep as many bits of the fraction as TF32, at twice the rate and half the bytes; what they lack in exponents scales make
up for: powers of two, one an output channel for the weights, one for all of a patch so far, with which sums are scaled
down where a later chunk of channels has larger elements. With three products (`terms`) each element is the sum of two
halves, 22 bits, and 64 terms at a time are added by the ordinary units, as in `product_wgmma`: float32's precision.

In: a convolution's numbers and the names of its operands. Out: three kernels, `powers`, `pack` (both of the weights) and
`convolve`, general in all shapes.
"""

from __future__ import annotations

from ..emit.text import Writer
from .halves_layout import CONSTANTS
from .halves_pack import PACK
from .halves_text import CONVOLVE
from .implicit import Convolved, bias_of, channels_of, numbers, weight_of
from .implicit_store import STORE
from .product_wgmma import INCLUDE
from .source import Launch


def halves_kernels(
    top: Writer, shape: Convolved, terms: int, deliver: str = STORE
) -> tuple[list[Launch], str, str]:
    """Writes the constants to `top`; see `CudaAnchored.kernels`. `terms`: 1 or 3. Tunables: PIXELS, WIDE, DEEP, CHANNELS,
    WARPGROUPS, CHUNK (a multiple of 8), SLICE, STAGES, UNITS (multiprocessors; right with any number) and NT. `deliver`: see `implicit_store`."""
    top.line(INCLUDE)
    top.line(f"constexpr int TERMS = {terms};  // products for one of floats")
    numbers(top, shape)
    for line in CONSTANTS.splitlines():
        top.line(line)
    kernels = PACK.replace("@WEIGHT", weight_of(shape)) + "\n" + bias_of(shape)
    kernels += CONVOLVE.replace("@IN", shape.source).replace("@DELIVER\n", deliver)
    packed, exponents = "(unsigned char*)workspace", "(int*)((char*)workspace + PACKED_BYTES)"
    spare = "(char*)workspace + SPARE_AT"
    launches = [
        Launch("powers", "OUTS * GROUPS", "128", extra=exponents, struct=True),
        Launch("pack", "(int64_t)ALL_SLICES * BLOCKS_OUT * GROUPS", "256", extra=f"{packed}, {exponents}", struct=True),
        Launch("convolve", "COMBOS * ALONG", "THREADS", "SHARED", f"{packed}, {exponents}, {spare}", struct=True),
    ]  # fmt: skip
    return launches, kernels, _workspace(shape, terms)


def _workspace(shape: Convolved, terms: int) -> str:
    """Bytes at the most: packed weights, of which each list's last slice may be part empty, and their exponents."""
    ins, outs, taps = channels_of(shape)
    chunks, blocks = f"(({ins} + CHUNK - 1) / CHUNK)", f"(({outs} + CHANNELS - 1) / CHANNELS)"
    steps = f"({taps} * (CHUNK / 8) + {shape.lists + 1}) / 2"
    slices, step = f"({steps} / SLICE + {shape.lists})", f"(SLICE * {64 if terms == 3 else 32} * CHANNELS)"
    return f"(uint64_t){shape.groups} * ({blocks} * {chunks} * {slices} * {step} + 4 * {outs}) + 256"
