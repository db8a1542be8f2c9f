"""Functions that emitted data movement calls. They come after `warpsmith_simd.h`."""

from __future__ import annotations

from ....kernels.templates import render

# In the order in which units have them; a helper lies in a file of its name.
HELPERS = ("ceil_div", "within", "nonzero", "entry", "fetch", "transpose", "interleave")


def helpers(body: str) -> str:
    """The helpers that the text calls."""
    called = (name for name in HELPERS if f"{name}(" in body or f"{name}<" in body)
    return "\n".join(render(f"data_movement/cpu/{name}.h") for name in called)
