"""Pointwise mode: no reduction. Tiles of TILE elements of the innermost loop, spread over threads."""

from __future__ import annotations

from ....codegen.addresses import Layout
from ....codegen.expressions import Express
from ....codegen.program import Program
from ....codegen.writer import INLINE, Writer


class PointwiseLoops:
    """Writes the body of `unit` for a program without reductions."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.layout, self.w = Layout(program), Writer()
        self.express = Express(program, self.layout, self.w)
        self.w.use("vectors")

    def write(self) -> None:
        w, names = self.w, [n for _, n in self.program.outputs]
        w.line(
            "constexpr int64_t tiles = (COLUMNS + TILE - 1) / TILE, size = COLUMNS < TILE ? COLUMNS : TILE;"
        )
        w.line("constexpr int64_t across = tiles > 0 ? tiles : 1;")
        w.line("constexpr int64_t grain = size >= GRAIN ? 1 : GRAIN / (size > 0 ? size : 1);")
        with w.block(
            "ws::parallel_ranges(THREADS, ROWS * tiles, grain, [&](int64_t begin, int64_t end_task, int)",
            "});",
        ):
            with w.block("for (int64_t task = begin; task < end_task; ++task)"):
                w.line("const int64_t row = task / across;")
                w.line("const int64_t col = task % across * TILE;")
                w.line("const int64_t end = col + TILE < COLUMNS ? col + TILE : COLUMNS;")
                self.layout.pointers(self.w)
                with w.block(f"vectors(col, end, [&](int64_t j, int n, int) {INLINE}", "});"):
                    self.express.vector(
                        self.program.list_needed_steps(names), lambda name: name, lanes_rows=False
                    )
                    for operand, name in self.program.outputs:
                        self.express.store(operand, self._value(name))
            w.line("if (NT) ws::fence();")
        w.prune(0)

    def _value(self, name: str) -> str:
        step = self.program.step(name)
        return self.express.splat(step) if self.express.constant(step) else name
