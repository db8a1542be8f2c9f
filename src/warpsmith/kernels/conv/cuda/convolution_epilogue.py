"""What follows a convolution, in the block that made the results: they are in shared memory, and what leaves the block is
less than they are.

In: `Epilogue`, and names of what the chains of a unit define. Out: the text that takes the place of the convolution's own
stores, constants, and the kernel after it. Three ends: pooled values are stored; a place's channels are reduced, by the
steps of a lowered program; the values of all places are added up, a warp a channel, then by `finish` in double. A value is
computed from the tile whenever it is asked for: bias, pointwise nodes, window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ....codegen.cuda.cuda_source import Launch
from ....codegen.program import Program
from ....codegen.templates import render
from ....codegen.writer import Writer
from .channel_steps import Walk, column_steps
from .implicit_gemm_tf32 import Convolved

Combine = Literal["", "max", "average"]
Summed = Literal["", "places", "all"]


@dataclass(frozen=True)
class Epilogue:
    """`window`: depth, height, width of the pooling (1: none); `divisor`: of averages. `before_pool`, `after_pool`: is there a chain
    of that name, before and after the pooling? Then `columns`, or a sum or mean over all places (`summed`: of each
    channel, or of all), or neither."""

    window: tuple[int, int, int]
    combine: Combine
    divisor: float
    before_pool: bool
    after_pool: bool
    columns: Program | None = None
    summed: Summed = ""
    mean: bool = False


def constants(epilogue: Epilogue) -> str:
    text = render("conv/cuda/epilogue_window_layout.cuh", **windows(epilogue))
    if epilogue.columns is not None:
        text += render("conv/cuda/epilogue_channel_reduction_layout.cuh")
    return text


def windows(epilogue: Epilogue) -> dict[str, int]:
    """Placeholders: the sizes of the windows."""
    return {f"window_{letter}": size for letter, size in zip("dhw", epilogue.window, strict=True)}


def render_epilogue(epilogue: Epilogue) -> str:
    """Render the epilogue of a tile of results, in the place of `implicit_gemm_tf32.store_tile`."""
    pointwise = "row = epilogue_before_pool<NEAR>(o, row, at);" if epilogue.before_pool else ""
    text = render("conv/cuda/epilogue_window_value.cuh", pointwise=pointwise, **combining(epilogue))
    if epilogue.columns is not None:
        return text + _columns(epilogue.columns)
    if epilogue.summed:
        return text + render("conv/cuda/epilogue_sum_over_places.cuh", value=apply_after_pool(epilogue))
    return text + render("conv/cuda/epilogue_window_store.cuh")


def apply_after_pool(epilogue: Epilogue) -> str:
    """A pooled value, `made`, after the pointwise nodes that follow the pooling."""
    return "epilogue_after_pool<1>(o, made, at)" if epilogue.after_pool else "made"


def combining(epilogue: Epilogue) -> dict[str, str]:
    """Placeholders: how a window's values, `row.at[v]`, become one, `made`."""
    start, step, end = {
        "max": ("-ws::infinity", "ws::max_nan(row.at[v], made)", "made"),
        "average": ("0.0f", "made + row.at[v]", f"made / {epilogue.divisor!r}f"),
        "": ("0.0f", "row.at[v]", "made"),
    }[epilogue.combine]
    return {"start": start, "combine": step, "finish": end}


def finish(epilogue: Epilogue) -> str:
    """The kernel after the convolution, where there is one."""
    count = "ENDS_D * ENDS_H * ENDS_W" + (" * ALL" if epilogue.summed == "all" else "")
    divisor = f"(double)({count})" if epilogue.mean else "1.0"
    if epilogue.summed == "places":
        return render("conv/cuda/sum_tiles_per_channel.cuh", divisor=divisor)
    return render("conv/cuda/sum_tiles_all_channels.cuh", divisor=divisor) if epilogue.summed else ""


def finish_launch(epilogue: Epilogue, sums: str) -> Launch:
    """`sums`: where they lie, as C++."""
    blocks = "IMAGES * BUNDLES" if epilogue.summed == "places" else "IMAGES"
    return Launch("finish", blocks, "256", extra=f"(const float*)({sums})", struct=True)


def sums_bytes(shape: Convolved, rows: bool) -> str:
    """Return the bytes of partial sums that tiles store for `finish`, a float each channel, as C++ of task.h's constants and tunables. `rows`: tiles as
    `implicit_gemm_tf32` has them, else as `implicit_gemm_fp16`."""
    if rows:
        wide = "(PIXELS_W < TILE_PIXELS ? PIXELS_W : TILE_PIXELS)"
        deep = f"(PIXELS_D < TILE_PIXELS / {wide} ? PIXELS_D : TILE_PIXELS / {wide})"
        high = f"(TILE_PIXELS / {wide} / {deep})"
    else:
        deep = "(PIXELS_D < TILE_PIXELS / 64 ? PIXELS_D : TILE_PIXELS / 64)"
        area = f"(TILE_PIXELS / {deep})"
        width = f"(PIXELS_W < {area} ? PIXELS_W : {area})"
        wide = f"({width} >= 64 || {area} / {width} >= 8 ? {width} : {area} / 8)"
        high = f"({area} / {wide})"
    sides = (deep, high, wide)[3 - shape.space :]
    phases = shape.stride if shape.transposed else (1,) * shape.space
    tiles = [
        f"((({shape.size(1 + d)} + {p - 1}) / {p} + {side} - 1) / {side})"
        for d, (side, p) in enumerate(zip(sides, phases, strict=True))
    ]
    return " * ".join([f"(uint64_t){shape.source}_shape[0]", shape.size(0), str(shape.lists), *tiles, "4"])


def _columns(program: Program) -> str:
    """The channels of each place of the tile, by threads above each other."""
    w = Writer()
    w.line("const int slot = threadIdx.x / ABREAST, col = threadIdx.x % ABREAST;")
    with w.block("for (int first = 0; first < PLACES; first += ABREAST)"):
        w.line("const Place task = place(first + col < PLACES ? first + col : PLACES - 1);")
        w.line("const bool inside = task.inside && first + col < PLACES;")
        w.line("int64_t at[RANK];")
        w.line("index(at, task, 0);")
        loop, merge = (
            "for (int c = slot; c < (int)OUTS; c += ABOVE)",
            "ws::column_merge<ABREAST, ABOVE>({}, slot, col);",
        )
        column_steps(w, program, Walk(loop, "8", "take(c, task)", "inside", "inside && slot == 0", merge))
    return "".join(f"  {line}\n" for line in w.text().splitlines())
