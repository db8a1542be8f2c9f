"""Steps as C++ statements, in a vector context (lanes) or a scalar one (a row's own values)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from .addresses import Addresses, Layout
from .program import Expr, Operand, Program
from .writer import Writer

VECTOR_TYPE = {"f": "ws::vf", "m": "ws::vm", "i": "ws::vi", "l": "ws::vl"}
WRITE = {
    "bool": "write_bool", "int64": "write_index",
    **dict.fromkeys(("int32", "int16", "int8", "uint8"), "write_int"),
}  # helper that stores lanes, of what "write" does not  # fmt: skip
READ = {"f": "read", "m": "read_bool", "l": "read_int"}  # helper that loads lanes
SCALAR_TYPE = {"f": "float", "m": "bool", "i": "int64_t", "l": "int64_t"}


class Express:
    """Writes steps. `rename` says how a row's value is called where lanes are computed (mean → mean[b])."""

    def __init__(self, program: Program, layout: Addresses, w: Writer) -> None:
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
        if step.pick:
            return self._pick_lanes(step, rename)
        call = (
            "ws::" in step.text or step.text == "{0}" or all(self.constant(self.table[a]) for a in step.args)
        )
        return self._fill(step, lambda a: self._vector_arg(self.table[a], call, rename, lanes_rows))

    def load(self, step: Expr, j: str, n: str) -> str:
        operand = step.operand
        assert operand is not None
        helper = READ[step.kind]
        self.w.use(helper)
        pointer = f"{operand.name}_at{self.layout.reduce_offset(operand)}"
        return f"{helper}<{self.layout.lane_stride(operand)}>({pointer}, {j}, {n})"

    def store(self, operand: Operand, value: str, stream: bool = True) -> None:
        """One store of lanes; `stream`: past the caches where NT says so."""
        helper = WRITE.get(operand.dtype, "write")
        self.w.use(helper)
        stride = self.layout.lane_stride(operand) + (", NT" if stream and helper == "write" else "")
        pointer = f"{operand.name}_at{self.layout.reduce_offset(operand)}"
        self.w.line(f"{helper}<{stride}>({pointer}, j, {value}, n);")

    def scalar(self, steps: Iterable[Expr]) -> None:
        """Values of a row, in rows mode."""
        for step in steps:
            if not self.constant(step):
                self.w.line(f"const {SCALAR_TYPE[step.kind]} {step.name} = {self.scalar_text(step)};")

    def scalar_text(self, step: Expr) -> str:
        if step.operand is not None:
            return self._load_one(step, f"{step.operand.name}_at")
        if step.pick:
            return self._pick_one(step)
        return self._fill(step, self._scalar_arg)

    def splat(self, step: Expr) -> str:
        """A constant, or a scalar, in all lanes."""
        text = step.text if self.constant(step) else step.name
        if step.kind == "m":
            return f"ws::splat_int(-(int){text})"
        if step.kind == "i":
            return f"ws::splat_int((int32_t){text})"
        return f"ws::splat_long({text})" if step.kind == "l" else f"ws::splat({text})"

    def _scalar_arg(self, name: str) -> str:
        return self.table[name].text if self.constant(self.table[name]) else name

    def _load_one(self, step: Expr, pointer: str) -> str:
        if step.kind == "f":
            return f"ws::load_one({pointer})"
        return f"*({pointer})" if step.kind == "m" else f"(int64_t)*({pointer})"

    def _pick_one(self, step: Expr) -> str:
        """The full step args[0] computed once more, for the element at args[1] only (rows mode)."""
        source, at = step.args[0], self._scalar_arg(step.args[1])
        lines = [f"const int64_t j = {at};", "if (j < 0 || j >= REDUCE) return ws::nan;"]
        for own_step in (s for s in self.program.list_needed_steps([source]) if not self.constant(s)):
            text = self._fill(own_step, self._scalar_arg)
            if own_step.operand is not None:
                name = own_step.operand.name
                text = self._load_one(
                    own_step, f"{name}_at + j * {self.layout.lane_stride(own_step.operand)}"
                )
            lines.append(f"const {SCALAR_TYPE[own_step.kind]} {own_step.name} = {text};")
        return f"[&] {{ {' '.join(lines)} return {source}; }}()"

    def _pick_lanes(self, step: Expr, rename: Callable[[str], str]) -> str:
        """Write a pick as `_pick_one` does, with an index for each lane (columns mode)."""
        layout = self.layout
        assert isinstance(layout, Layout)
        source, at, loop = step.args[0], self.table[step.args[1]], layout.reduces[-1]
        index = self.splat(at) if self.constant(at) else rename(at.name)
        self.w.use("pick")
        lines = [f"const ws::vl at = {index};"]
        for own_step in (s for s in self.program.list_needed_steps([source]) if not self.constant(s)):
            if own_step.operand is None:
                text = self.vector_text(own_step, rename, True)
            else:
                name, moves = own_step.operand.name, layout.moves(own_step.operand, loop)
                down = f"{name}_{loop.tag}" if moves else "0"
                text = (
                    f"pick<{down}, {self.layout.lane_stride(own_step.operand)}>({name}_at, at, REDUCE, j, n)"
                )
            lines.append(f"const {VECTOR_TYPE[own_step.kind]} {own_step.name} = {text};")
        return f"[&] {{ {' '.join(lines)} return {source}; }}()"

    def _fill(self, step: Expr, name: Callable[[str], str]) -> str:
        return re.sub(r"\{(\d+)\}", lambda m: name(step.args[int(m[1])]), step.text)

    def _vector_arg(self, arg: Expr, call: bool, rename: Callable[[str], str], lanes_rows: bool) -> str:
        if self.constant(arg):
            return self.splat(arg) if call else arg.text
        if arg.full:
            return arg.name
        if lanes_rows:
            return rename(arg.name)
        if arg.kind == "m":
            return f"ws::splat_int(-(int){rename(arg.name)})"
        if arg.kind == "i":
            return f"ws::splat_int((int32_t){rename(arg.name)})"
        if arg.kind == "l":
            return f"ws::splat_long({rename(arg.name)})" if call else rename(arg.name)
        return f"ws::splat({rename(arg.name)})" if call else rename(arg.name)
