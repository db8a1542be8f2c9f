"""The whole file of a unit: front matter, tunables' defaults, workspace, includes, helpers, code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....records import Tunable
from ....targets.front_matter import FrontMatter, render
from ..program import Program
from .columns import Columns
from .pointwise import Pointwise
from .rows import Rows
from .split_rows import SplitRows
from .text import Writer


@dataclass(frozen=True)
class Shape:
    """The structural choices of a technique. `single_pass` was made when the program was lowered."""

    stash: bool = False  # keep dear intermediate values in a scratch row instead of computing them again
    split: bool = False  # parts of rows to threads, in two stages: for few, long rows


@dataclass(frozen=True)
class Body:
    """What is written of a unit's file. `above` goes before the includes, `before` between them and `unit`."""

    w: Writer  # the lines of `unit`
    workspace: str = ""  # bytes, as C++; "": none
    above: str = ""
    before: str = ""


def write_body(program: Program, shape: Shape) -> Body:
    """C++ that is general in all shapes."""
    body, before, workspace = _body(program, shape)
    layout = Writer()
    body.layout.declare(layout)
    stash = ""
    if "STASH" in workspace:
        layout.line("constexpr int64_t STASH = STASH_FLOATS;  // scratch for one kept value of one thread")
        workspace = workspace.replace("STASH", "STASH_FLOATS")
        stash = _stash_floats(body)
    body.w.helpers |= layout.helpers
    return Body(body.w, workspace, above=stash, before=layout.text() + before)


def unit_file(body: Body, matter: FrontMatter, why: str, operands: Sequence[str]) -> str:
    """C++ text that includes task.h and defines `unit`, whose parameters are `operands`: in0, in1 …, out0 …"""
    parameters = "".join(f"{'const ' if o.startswith('in') else ''}{o}_t* {o}, " for o in operands)
    parts = [
        render(matter).rstrip("\n"), f"// {why}", defaults_of(matter.tunables), body.above,
        f"#define WORKSPACE_BYTES ({body.workspace})" if body.workspace else "",
        '#include "task.h"', '#include "warpsmith_simd.h"', "",
        body.w.prelude(), body.before, f"static void unit({parameters}void* workspace, void* stream) {{",
        "  (void)stream;" if body.workspace else "  (void)workspace, (void)stream;",
        indented(body.w.text()) + "}",
    ]  # fmt: skip
    return "\n".join(p for p in parts if p) + "\n"


def _body(program: Program, shape: Shape) -> tuple[Rows | Columns | Pointwise, str, str]:
    """The writer, text that goes before `unit`, and the workspace it needs."""
    if program.mode == "pointwise":
        point = Pointwise(program)
        point.write()
        return point, "", ""
    if program.mode == "rows":
        rows = SplitRows(program) if shape.split else Rows(program, shape.stash)
        rows.write()
        return rows, "", rows.workspace
    columns = Columns(program, shape.stash)
    columns.write_function()
    before = columns.w.text()
    columns.w.lines.clear()
    columns.write()
    return columns, before, columns.totals.workspace(columns.stash_bytes)


def _stash_floats(body: Rows | Columns | Pointwise) -> str:
    """Scratch for one kept value: a row or a block of columns, rounded up to whole cache lines."""
    rows = body.program.mode == "rows"
    size = (
        f"({body.layout.expression('REDUCE_INNER')} + VEC)"
        if rows
        else f"({body.layout.expression('REDUCE')} * BLOCK * VEC)"
    )
    return f"#define STASH_FLOATS (((uint64_t){size} + 31) / 16 * 16)"


def defaults_of(tunables: tuple[Tunable, ...]) -> str:
    return "\n".join(f"#ifndef {t.name}\n#define {t.name} {t.value}\n#endif" for t in tunables)


def indented(text: str) -> str:
    return "".join(
        f"  {line}\n" if line and not line.startswith("#") else f"{line}\n" for line in text.splitlines()
    )
