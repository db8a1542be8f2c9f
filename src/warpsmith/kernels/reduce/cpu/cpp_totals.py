"""What all rows yield together: sums and extrema of the rows' own values, and the few steps made of them.

Each thread combines its rows in double, in order, in a share of its own of the workspace; the shares are combined
in order afterwards, so that the result does not depend on timing. Then the tail of the program is computed once.
"""

from __future__ import annotations

from dataclasses import replace

from ....codegen.addresses import Layout
from ....codegen.expressions import Express
from ....codegen.lowering.op_builder import kind_of
from ....codegen.program import Expr, Program
from ....codegen.writer import Writer

START = {"sum": "0.0", "max": "-ws::infinity", "min": "ws::infinity", "prod": "1.0"}
MERGE = {
    "sum": "{a} += {b};", "prod": "{a} *= {b};",
    "max": "{a} = ws::max_nan((float){a}, (float){b});", "min": "{a} = ws::min_nan((float){a}, (float){b});",
}  # fmt: skip
ACROSS = {"sum": "ws::hadd(ws::widen({x}))", "max": "ws::hmax_nan({x})", "min": "ws::hmin_nan({x})",
          "prod": "ws::hmul({x})"}  # fmt: skip


class Totals:
    """Writes the pieces; where a program has no totals, each of them is nothing."""

    def __init__(self, program: Program, layout: Layout) -> None:
        self.program, self.totals = program, program.totals
        self.room = (len(self.totals) + 7) // 8 * 8  # doubles of a share: whole cache lines
        self._tail = replace(program, steps=program.tail)
        self._layout = layout

    def __bool__(self) -> bool:
        return bool(self.program.ends)

    def workspace(self, before: str) -> str:
        """Bytes of the workspace, of which `before` are used otherwise; "" for none."""
        shares = f"(uint64_t)THREADS * {self.room} * sizeof(double)" if self.totals else ""
        return " + ".join(s for s in (before, shares) if s)

    def declare(self, w: Writer, before: str) -> None:
        """The shares, behind the `before` bytes of the workspace that are used otherwise."""
        if not self.totals:
            return
        w.line(f"double* const shares = (double*)((char*)workspace + {before or '0'});")
        with w.block("for (int part = 0; part < THREADS; ++part)"):
            for i, step in enumerate(self.totals):
                w.line(f"shares[part * {self.room} + {i}] = {START[step.total]};")

    def open(self, w: Writer) -> None:
        if self.totals:
            w.line(f"double* const totals = shares + part * {self.room};")

    def local(self, w: Writer) -> None:
        """One share on the stack, where rows are not spread over threads."""
        if self.totals:
            w.line(f"double totals[] = {{{', '.join(START[s.total] for s in self.totals)}}};")

    def row(self, w: Writer, express: Express) -> None:
        """Take in a row's values, which are scalars."""
        for i, step in enumerate(self.totals):
            value = self._source(step)
            text = value.text if express.constant(value) else value.name
            w.line(MERGE[step.total].format(a=f"totals[{i}]", b=f"(double){text}"))

    def lanes(self, w: Writer, express: Express) -> None:
        """Take in a vector of columns, `n` lanes of which are real."""
        for i, step in enumerate(self.totals):
            value = self._source(step)
            integer = value.kind == "l"
            splat = "ws::splat_long" if integer else "ws::splat"
            x = f"{splat}({value.text})" if express.constant(value) else f"{value.name}[b]"
            start = (
                f"{splat}((int64_t){START[step.total]})"
                if integer
                else f"{splat}((float){START[step.total]})"
            )
            real = f"ws::select(ws::iota() < n, {x}, {start})"
            merged = ACROSS[step.total].format(x=real)
            w.line(MERGE[step.total].format(a=f"totals[{i}]", b=merged))

    def merge(self, w: Writer) -> None:
        """All shares into the first, in order."""
        if not self.totals:
            return
        w.line("// All rows together: the threads' shares, in order.")
        w.line("double* const totals = shares;")
        with w.block("for (int part = 1; part < THREADS; ++part)"):
            for i, step in enumerate(self.totals):
                a, b = f"totals[{i}]", f"shares[part * {self.room} + {i}]"
                w.line(MERGE[step.total].format(a=a, b=b))

    def finish(self, w: Writer) -> None:
        """The tail, and its outputs."""
        express = Express(self._tail, self._layout, w)
        for i, step in enumerate(self.totals):
            kind = "int64_t" if step.kind == "l" else "float"
            w.line(f"const {kind} {step.name} = ({kind})totals[{i}];")
        loads = (s.operand for s in self._tail.steps if s.operand is not None)
        for name in dict.fromkeys(o.name for o in loads):
            w.line(f"const {name}_t* const {name}_at = {name};")
        express.scalar(s for s in self._tail.steps if not s.total)
        for operand, name in self.program.ends:
            step = express.table[name]
            text = step.text if express.constant(step) else name
            plain = kind_of(operand.dtype) != "f"
            w.line(f"*{operand.name} = {text};" if plain else f"ws::store_one({operand.name}, {text});")

    def _source(self, step: Expr) -> Expr:
        return self.program.step(step.args[0])
