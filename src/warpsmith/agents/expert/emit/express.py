"""Steps as C++ statements, in a vector context (lanes) or a scalar one (a row's own values)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from ..program import Expr, Program
from .layout import Layout
from .text import Writer

VECTOR_TYPE = {"f": "ws::vf", "m": "ws::vm", "i": "ws::vi"}
SCALAR_TYPE = {"f": "float", "m": "bool", "i": "int64_t"}


class Express:
    """Writes steps. `rename` says how a row's value is called where lanes are computed (mean → mean[b])."""

    def __init__(self, program: Program, layout: Layout, w: Writer) -> None:
        self.program, self.layout, self.w = program, layout, w
        self.table = {s.name: s for s in program.steps}

    def constant(self, step: Expr) -> bool:
        return not step.args and step.operand is None and not step.reduction

    def vector(self, steps: Iterable[Expr], rename: Callable[[str], str], lanes_rows: bool) -> None:
        """One statement a step. `lanes_rows`: a row's values are vectors, too (columns mode)."""
        for step in steps:
            if self.constant(step):
                continue
            name = VECTOR_TYPE[step.kind]
            self.w.line(f"const {name} {step.name} = {self.vector_text(step, rename, lanes_rows)};")

    def vector_text(self, step: Expr, rename: Callable[[str], str], lanes_rows: bool) -> str:
        if step.operand is not None:
            return self.load(step, "j", "n")
        call = "ws::" in step.text or step.text == "{0}"
        return self._fill(step, lambda a: self._vector_arg(self.table[a], call, rename, lanes_rows))

    def load(self, step: Expr, j: str, n: str) -> str:
        operand = step.operand
        assert operand is not None
        helper = "read_bool" if operand.dtype == "bool" else "read"
        self.w.use(helper)
        pointer = f"{operand.name}_at{self.layout.reduce_offset(operand)}"
        return f"{helper}<{self.layout.lane_stride(operand)}>({pointer}, {j}, {n})"

    def scalar(self, steps: Iterable[Expr]) -> None:
        """Values of a row, in rows mode."""
        for step in steps:
            if not self.constant(step):
                self.w.line(f"const {SCALAR_TYPE[step.kind]} {step.name} = {self.scalar_text(step)};")

    def scalar_text(self, step: Expr) -> str:
        if step.operand is not None:
            at = f"{step.operand.name}_at"
            return f"*{at}" if step.operand.dtype == "bool" else f"ws::load_one({at})"
        return self._fill(step, lambda a: self.table[a].text if self.constant(self.table[a]) else a)

    def _fill(self, step: Expr, name: Callable[[str], str]) -> str:
        return re.sub(r"\{(\d+)\}", lambda m: name(step.args[int(m[1])]), step.text)

    def _vector_arg(self, arg: Expr, call: bool, rename: Callable[[str], str], lanes_rows: bool) -> str:
        if self.constant(arg):
            return f"ws::splat({arg.text})" if call else arg.text
        if arg.full:
            return arg.name
        if lanes_rows:
            return rename(arg.name)
        if arg.kind == "m":
            return f"ws::splat_int(-(int){rename(arg.name)})"
        return f"ws::splat({rename(arg.name)})" if call else rename(arg.name)
