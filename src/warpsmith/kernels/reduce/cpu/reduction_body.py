"""The C++ of a program with reductions: along rows, along parts of rows, or along columns."""

from __future__ import annotations

from ....codegen.cpp_source import Body
from ....codegen.program import Program
from ...family import Shape
from .cpp_columns import Columns
from .cpp_rows import Rows
from .cpp_split_rows import SplitRows


def write_reduction(program: Program, shape: Shape) -> Body:
    """C++ that is general in all shapes."""
    body, before, workspace = _body(program, shape)
    constants, stash = body.layout.declare_before(body.w), ""
    if "STASH" in workspace:
        constants += "constexpr int64_t STASH = STASH_FLOATS;  // scratch for one kept value of one thread\n"
        workspace = workspace.replace("STASH", "STASH_FLOATS")
        stash = _stash_floats(body)
    return Body(body.w, workspace, above=stash, before=constants + before)


def _body(program: Program, shape: Shape) -> tuple[Rows | Columns, str, str]:
    """The writer, text that goes before `unit`, and the workspace it needs."""
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


def _stash_floats(body: Rows | Columns) -> str:
    """Scratch for one kept value: a row or a block of columns, rounded up to whole cache lines."""
    rows = body.program.mode == "rows"
    size = (
        f"({body.layout.expression('REDUCE_INNER')} + VEC)"
        if rows
        else f"({body.layout.expression('REDUCE')} * BLOCK * VEC)"
    )
    return f"#define STASH_FLOATS (((uint64_t){size} + 31) / 16 * 16)"
