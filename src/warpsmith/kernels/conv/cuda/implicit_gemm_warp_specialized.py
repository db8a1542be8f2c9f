"""Persistent, warp-specialised implicit GEMM of convolutions and transposed ones (`wgmma`, sm_90a) on an image that is packed once.

The image is cast to fp16 as NC/8HWC8: 8 channels of a cell side by side, with zeros between rows such that every tap reads
all outputs' inputs shifted by the same number of cells, over rows and images. So a tile is any cells in a row, none of it
idle at an image's edge; what it reads comes by few bulk copies, asked for ahead by a producer warp, and tensor cores read
it where it lies, as in `implicit_gemm_fp16`. Scales are powers of two, one an image and one an output channel: elements smaller than 2^-24
of their image's largest may lose bits (2^-29 where it is sixteen times as large as those of the sample).

In: a convolution's numbers and the names of its operands. Out: five kernels: `powers` and `pack` (of the weights), `cast_to_fp16`
and `rescale` (of the image; the second one where a sample told too little of its largest element), and `convolve`, general in
all shapes.
"""

from __future__ import annotations

from ....codegen.cuda.cuda_source import Launch
from ....codegen.program import Program
from ....codegen.templates import render
from ....codegen.writer import Writer
from ...gemm.cuda.gemm_3xfp16 import INCLUDE
from .channel_steps import Walk, column_steps
from .implicit_gemm_tf32 import Convolved, bias_of, channels_of, numbers, weight_of


def emit_warp_specialized_kernels(
    top: Writer, shape: Convolved, epilogue: str = "", full_channels: bool = False
) -> tuple[list[Launch], str, str]:
    """Writes the constants to `top`; see `CudaAnchored.kernels`. `epilogue`: CUDA C++ that takes results, see `store_results`;
    "": stores them; `full_channels`: it wants all channels of a place at once. Tunables: MMA_TILES_M, WARPGROUPS, CONSUMER_GROUPS (of warpgroups, where
    all weights stay), CHANNELS, CHUNK (a multiple of 8), BAND (taps that read one patch: 0 of a row, 1 of a plane, 2 all),
    K_STEPS_PER_STAGE, STAGES, IMAGE_STAGES (two or more), SM_COUNT (multiprocessors; right with any number) and NT."""
    top.line(INCLUDE)
    top.line(
        f"constexpr int TERMS = 1;  // products for one of floats\nconstexpr bool WHOLE = {str(full_channels).lower()};"
    )
    numbers(top, shape)
    for line in _render_layout().splitlines():
        top.line(line)
    weight, epilogue = weight_of(shape), (epilogue or store_results()).rstrip("\n")
    kernels = render("conv/cuda/fp16_scales.cuh", weight=weight)
    kernels += render("conv/cuda/cast_image_to_fp16_nc8hwc8.cuh", source=shape.source)
    kernels += render("conv/cuda/pack_weights_fp16.cuh", weight=weight) + "\n" + bias_of(shape)
    kernels += render("conv/cuda/implicit_gemm_warp_specialized.cuh", epilogue=epilogue)
    packed, image_vectors = "(unsigned char*)workspace", "(unsigned char*)workspace + PACKED_BYTES"
    exponents = "(int*)((char*)workspace + PACKED_BYTES + PACKED_IMAGE_BYTES)"
    of_images, sampled = f"{exponents} + OUTS * GROUPS", f"{exponents} + OUTS * GROUPS + IMAGES"
    peaks, tile_counter = f"{exponents} + OUTS * GROUPS + 2 * IMAGES", f"{exponents} + NUMBERS - COMBOS"
    launches = [
        Launch("cast_to_fp16", "IMAGES * PARTS + ZEROS", "256", extra=f"{image_vectors}, {sampled}, {peaks}, {tile_counter}", struct=True),
        Launch("rescale", "IMAGES * RESCALE_BLOCKS", "256", extra=f"{image_vectors}, {sampled}, {peaks}, {of_images}", struct=True),
        Launch("powers", "OUTS * GROUPS", "128", extra=exponents, struct=True),
        Launch("pack", "(int64_t)ALL_STEPS * CHUNKS * BLOCKS_OUT * GROUPS", "256", extra=f"{packed}, {exponents}", struct=True),
        Launch("convolve", "COMBOS * ALONG", "THREADS", "SHARED", f"{packed}, {image_vectors}, {exponents}, {of_images}, {tile_counter}", struct=True),
    ]  # fmt: skip
    return launches, kernels, _workspace(shape)


def _render_layout() -> str:
    """Render the constants: how the packed image lies, which taps read what of it together, what a block makes."""
    texts = (
        render("conv/cuda/convolution_axes.cuh"), render("conv/cuda/convolution_phases.cuh"),
        render("conv/cuda/implicit_gemm_k16_steps.cuh"),
        render("conv/cuda/implicit_gemm_warp_specialized_layout.cuh"),
    )  # fmt: skip
    return "".join(texts)


def store_results() -> str:
    """Takes a warpgroup's results to the outputs: that of channel `first` + c of the block and cell `row0` + r, of each inner
    phase, lies at mine[c * PITCH + r * INNER + inner]."""
    return render(
        "conv/cuda/implicit_gemm_warp_specialized_store.cuh", output_index=_render_output_index("q * V")
    )


def _render_output_index(result: str) -> str:
    """Render the index of a result in the output; `result`: its number, as C++."""
    text = render("conv/cuda/implicit_gemm_warp_specialized_output_index.cuh", result=result)
    return text.rstrip("\n")


def columns(program: Program, before_pool: bool) -> str:
    """For `emit_warp_specialized_kernels`: reductions over the channels of a place, by one thread. `before_pool`: is there a chain of that name?"""
    w = Writer()
    walk = Walk("for (int c = 0; c < (int)OUTS; c++)", "8", "take(c)", "inside", "inside")
    column_steps(w, program, walk)
    return render(
        "conv/cuda/implicit_gemm_warp_specialized_channel_reduction.cuh",
        output_index=_render_output_index("q"),
        value="epilogue_before_pool<1>(o, row, of)" if before_pool else "row",
        steps="\n".join(f"        {line}" for line in w.text().splitlines()),
    )


def _workspace(shape: Convolved) -> str:
    """Bytes at the most: packed weights, the image's channel vectors, exponents."""
    ins, outs, taps = channels_of(shape)
    images, groups = f"{shape.source}_shape[0]", f"(uint64_t){shape.groups}"
    chunks = f"(({ins} + CHUNK - 1) / CHUNK)"
    steps = f"({taps} * (CHUNK / 8) + {shape.lists} * {taps}) / 2 + {shape.lists}"
    packed = f"{groups} * (({outs} + CHANNELS - 1) / CHANNELS) * {chunks} * ({steps}) * (32 * CHANNELS)"
    cells, furthest, kinds = [], "0", 1
    for d in range(shape.space):
        reach = f"{shape.dilation[d]} * ({shape.weight}_shape[{2 + d}] - 1)"
        stride, extent = shape.stride[d], shape.size(1 + d)
        shift = f"(({reach}) / {stride} + 1)"
        row_cells = f"(({extent} + {stride - 1}) / {stride})" if shape.transposed else extent
        cells.append(f"({row_cells} + {shift}{' + 3' if d == shape.space - 1 else ''})")
        furthest = f"({furthest}) * {cells[-1]} + {shift}"
        kinds *= 1 if shape.transposed else stride
    all_cells = " * ".join(cells)
    planes = f"{groups} * {chunks} * (CHUNK / 8) * {kinds}"
    line = f"({images} * {all_cells} + 64 * MMA_TILES_M * WARPGROUPS + 2 * ({furthest}))"
    peaks = f"{images} * (3 + {all_cells} * {planes} / 2048)"
    combos = f"{groups} * (({outs} + CHANNELS - 1) / CHANNELS) * {shape.lists}"
    return f"{packed} + {planes} * {line} * 16 + 4 * ({outs} * {groups} + {peaks} + {combos}) + 256"
