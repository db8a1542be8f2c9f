"""The whole file of a unit: front matter, tunables' defaults, workspace, includes, helpers, code."""

from __future__ import annotations

from dataclasses import dataclass

from ....records import Tunable
from ....targets.front_matter import FrontMatter, render
from ..program import Program
from .columns import Columns
from .pointwise import Pointwise
from .rows import Rows
from .text import Writer


@dataclass(frozen=True)
class Shape:
    """The structural choices of a technique. `single_pass` was made when the program was lowered."""

    stash: bool = False  # keep dear intermediate values in a scratch row instead of computing them again
    split: bool = False  # parts of rows to threads, in two stages: for few, long rows


def write_source(
    program: Program,
    shape: Shape,
    tunables: tuple[Tunable, ...],
    flags: tuple[str, ...],
    family: str,
    technique: str,
    why: str,
) -> str:
    """C++ text that includes task.h and defines `unit`; general in all shapes."""
    body, before, workspace = _body(program, shape)
    layout = Writer()
    body.layout.declare(layout)
    if "STASH" in workspace:
        layout.line("constexpr int64_t STASH = STASH_FLOATS;  // scratch for one kept value of one thread")
        workspace = workspace.replace("STASH", "STASH_FLOATS")
    body.w.helpers |= layout.helpers
    parameters = ", ".join(
        f"{'const ' if o.name.startswith('in') else ''}{o.name}_t* {o.name}" for o in program.operands
    )
    stash = _stash_floats(body) if "STASH" in workspace else ""
    return unit_file(
        body.w, parameters, workspace, tunables, flags, family, technique, why,
        above=stash, before=layout.text() + before,
    )  # fmt: skip


def unit_file(
    w: Writer, parameters: str, workspace: str, tunables: tuple[Tunable, ...], flags: tuple[str, ...],
    family: str, technique: str, why: str, above: str = "", before: str = "",
) -> str:  # fmt: skip
    """The file around the lines of `unit`. `above` goes before the includes, `before` between them and `unit`."""
    matter = render(FrontMatter(family=family, technique=technique, tunables=tunables, flags=flags))
    parts = [
        matter.rstrip("\n"), f"// {why}", _defaults(tunables), above,
        f"#define WORKSPACE_BYTES ({workspace})" if workspace else "",
        '#include "task.h"', '#include "warpsmith_simd.h"', "",
        w.prelude(), before, f"static void unit({parameters}, void* workspace, void* stream) {{",
        "  (void)stream;" if workspace else "  (void)workspace, (void)stream;",
        _indent(w.text()) + "}",
    ]  # fmt: skip
    return "\n".join(p for p in parts if p) + "\n"


def _body(program: Program, shape: Shape) -> tuple[Rows | Columns | Pointwise, str, str]:
    """The writer, text that goes before `unit`, and the workspace it needs."""
    if program.mode == "pointwise":
        point = Pointwise(program)
        point.write()
        return point, "", ""
    if program.mode == "rows":
        rows = Rows(program, shape.stash, shape.split)
        rows.write()
        if shape.split:
            return (
                rows,
                "",
                f"(uint64_t)({rows.layout.expression('ROWS')}) * SPLIT * {rows.slots} * sizeof(double)",
            )
        return rows, "", _sum(rows.stash_bytes, rows.totals.bytes)
    columns = Columns(program, shape.stash)
    columns.write_function()
    before = columns.w.text()
    columns.w.lines.clear()
    columns.write()
    return columns, before, _sum(columns.stash_bytes, columns.totals.bytes)


def _sum(*sizes: str) -> str:
    return " + ".join(s for s in sizes if s)


def _stash_floats(body: Rows | Columns | Pointwise) -> str:
    """Scratch for one kept value: a row or a block of columns, rounded up to whole cache lines."""
    rows = body.program.mode == "rows"
    size = (
        f"({body.layout.expression('REDUCE_INNER')} + VEC)"
        if rows
        else f"({body.layout.expression('REDUCE')} * BLOCK * VEC)"
    )
    return f"#define STASH_FLOATS (((uint64_t){size} + 31) / 16 * 16)"


def _defaults(tunables: tuple[Tunable, ...]) -> str:
    return "\n".join(f"#ifndef {t.name}\n#define {t.name} {t.value}\n#endif" for t in tunables)


def _indent(text: str) -> str:
    return "".join(
        f"  {line}\n" if line and not line.startswith("#") else f"{line}\n" for line in text.splitlines()
    )
