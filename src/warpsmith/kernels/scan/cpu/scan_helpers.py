"""Constants and functions of a scan, general in all shapes; its loops lie in `scan/cpu`, too.

In: what is scanned and in which form. `prologue0` brings a run of the source into a buffer, the scan works on the
buffer in place, `epilogue` takes it from there.
"""

from __future__ import annotations

from ....codegen.templates import render
from ..scan_pattern import COMBINE


def helpers(kind: str, rank: int, axis: int, reverse: bool, exclusive: bool, lanes: bool, short: bool) -> str:
    """Constants and functions that the bodies use; `kind` is "sum", "product", "maximum" or "minimum". `lanes`:
    over columns; `short`: a vector's own prefixes are float32.
    """
    identity, combine = COMBINE[kind]
    text = render(
        "scan/cpu/constants.h", rank=rank, axis=axis, identity=identity, combine=combine,
        reverse=_cpp(reverse), exclusive=_cpp(exclusive), lanes=_cpp(lanes),
    )  # fmt: skip
    if lanes:
        return text
    rows = render("scan/cpu/scan_float32.h", combine=combine) if short else render("scan/cpu/scan_float64.h")
    return text + rows + render("scan/cpu/total.h")


def _cpp(flag: bool) -> str:
    return "true" if flag else "false"
