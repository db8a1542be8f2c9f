"""Functions that emitted data movement calls. They come after `warpsmith_simd.h`."""

from __future__ import annotations

from pathlib import PurePath

from ....codegen.templates import render

# Each in a file of its name, in the order in which units have them.
KERNELS = (
    "data_movement/cpu/ceil_div.h", "data_movement/cpu/within.h", "data_movement/cpu/nonzero.h",
    "data_movement/cpu/entry.h", "data_movement/cpu/fetch.h", "data_movement/cpu/transpose.h",
    "data_movement/cpu/interleave.h",
)  # fmt: skip


def helpers(body: str) -> str:
    """The helpers that the text calls."""
    names = {PurePath(kernel).stem: kernel for kernel in KERNELS}
    return "\n".join(render(k) for name, k in names.items() if f"{name}(" in body or f"{name}<" in body)
