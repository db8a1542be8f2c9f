"""Loops of a convolution as C++ text: in a window's numbers and the names of its operands, out the body of `unit`.

Everything is a sum of shifted runs. A thread packs the padded rows that a band of output rows needs into its
scratch as float32, columns and rows of one remainder modulo the stride side by side (a *phase*), so that the
inner loops read neighbours whatever the stride, the dilation, the dtype or the layout of the input, and never
test for a border. One- and two-dimensional convolutions are three-dimensional ones of depth (and height) 1.

`write_flat` runs over the rows of a band as one, BLOCK output channels × UNROLL vectors in registers; `write_rows`
holds BLOCK output rows of one channel × UNROLL vectors, so that a loaded vector serves several rows.
"""

from __future__ import annotations

from textwrap import indent

from ....codegen.templates import render
from ....codegen.writer import Writer
from ..convolution_pattern import Window

COLUMNS = 2048  # output columns packed at a time at most
PARALLEL = 1 << 17  # multiply-adds below which no further thread is woken


def workspace(window: Window, rows: bool) -> str:
    """Bytes: the packed weights, and each thread's scratch, as one C++ expression of task.h's constants."""
    text = " ".join(_constants(window, rows))
    return f"[] {{ {text} return (WEIGHTS + THREADS * SCRATCH) * (int64_t)sizeof(float); }}()"


def write_flat(w: Writer, window: Window) -> None:
    sums = render("conv/cpu/channel_block_sums.h")
    tiles = render("conv/cpu/register_tiles.h", start="start[o]", length="run", sums=_indent(sums, 1))
    _write(w, window, False, _loops("conv/cpu/channel_blocks.h", window, _indent(tiles, 1)))


def write_rows(w: Writer, window: Window) -> None:
    sums = render("conv/cpu/row_block_sums.h")
    tiles = render("conv/cpu/register_tiles.h", start="start", length="cols", sums=_indent(sums, 1))
    _write(w, window, True, _loops("conv/cpu/row_blocks.h", window, _indent(tiles, 2)))


def _loops(kernel: str, window: Window, register_tiles: str) -> str:
    bias = f"ws::load_one({window.bias} + channel * {window.bias}_stride[0])" if window.bias else "0.0f"
    out_at = ", ".join(["n", "channel", *["od", "top + r", "left"][5 - window.rank :]])
    return render(kernel, bias=bias, out_at=out_at, register_tiles=register_tiles)


def _indent(text: str, depth: int) -> str:
    """The text for a placeholder that stands alone on a line, `depth` levels deep; directives stay at the margin."""
    return indent(text, "  " * depth, lambda line: not line.startswith("#")).strip()


def _write(w: Writer, window: Window, rows: bool, loops: str) -> None:
    for line in _constants(window, rows):
        w.line(line)
    image = ["n", "g * IC + c", *["d", "h", "first_column + from"][5 - window.rank :]]
    tap = ["channel", "c", *["kd", "kh", "kw"][5 - window.rank :]]
    strides = "".join(f" + {index} * {window.weight}_stride[{d}]" for d, index in enumerate(tap))
    text = render(
        "conv/cpu/direct.h", block="1" if rows else "BLOCK", min_work=PARALLEL, image_at=", ".join(image),
        weight_at=window.weight + strides, loops=_indent(loops, 2),
    )  # fmt: skip
    w.paste(text)


def _constants(window: Window, rows: bool) -> list[str]:
    """Declarations: of the convolution, of the cut into tasks, of the scratch."""
    pad = 5 - window.rank
    constants = {
        "N": window.extents[0], "OC": f"{window.weight}_shape[0]", "IC": f"{window.weight}_shape[1]",
        "G": f"{window.extents[1]} / IC", "OG": "OC / G",
    }  # fmt: skip
    for d, axis in enumerate("DHW"):
        s = d - pad
        constants |= {
            f"I{axis}": window.extents[2 + s] if s >= 0 else "1",
            f"K{axis}": f"{window.weight}_shape[{2 + s}]" if s >= 0 else "1",
            f"S{axis}": str(window.stride[s]) if s >= 0 else "1",
            f"P{axis}": str(window.before[s]) if s >= 0 else "0",
            f"Q{axis}": str(window.after[s]) if s >= 0 else "0",
            f"D{axis}": str(window.dilation[s]) if s >= 0 else "1",
            f"O{axis}": f"(I{axis} + P{axis} + Q{axis} - D{axis} * (K{axis} - 1) - 1) / S{axis} + 1",
        }
    if window.width:
        constants["OW"] = window.width
    constants |= {
        "IMAGES": "most(1, N * G * OD)",
        "PIECES": "(2 * THREADS + IMAGES - 1) / IMAGES",
        "ROWS": "least(BAND, (OH + PIECES - 1) / PIECES)",
        "COLS": f"most(1, least(least(OW, {COLUMNS}), OH > 1 ? OW : up((OW + PIECES - 1) / PIECES, VEC)))",
        "BANDS": "(OH + ROWS - 1) / ROWS",
        "SEGMENTS": "(OW + COLS - 1) / COLS",
        "BLOCKS": "OG" if rows else "(OG + BLOCK - 1) / BLOCK",
        "TAPS": "IC * KD * KH * KW",
        "PITCH": "COLS + (KW - 1) * DW / SW",
        "PHASE": f"PITCH * ({'up(ROWS, BLOCK)' if rows else 'ROWS'} + (KH - 1) * DH / SH)",
        "PLANE": "SH * SW * PHASE",
        "RUN": f"up({'COLS' if rows else '(ROWS - 1) * PITCH + COLS'}, UNROLL * VEC)",
        "PACKED": "up(IC * KD * PLANE + UNROLL * VEC, 16)",
        "TILE": "up(BLOCK * RUN, 16)",
        "SCRATCH": "PACKED + TILE + up(SW * PITCH, 16)",
        "WEIGHTS": f"up(G * BLOCKS * TAPS * {'1' if rows else 'BLOCK'}, 16)",
    }
    return [
        "constexpr auto least = [](int64_t a, int64_t b) { return a < b ? a : b; };",
        "constexpr auto most = [](int64_t a, int64_t b) { return a > b ? a : b; };",
        "constexpr auto up = [](int64_t a, int64_t b) { return (a + b - 1) / b * b; };",
        *(f"[[maybe_unused]] constexpr int64_t {name} = {text};" for name, text in constants.items()),
    ]
