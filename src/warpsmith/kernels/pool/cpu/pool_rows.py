"""A pooling along the rows of its output: combine the rows of the windows into one line, then the line's columns.

In: an anchor and its `Pool`. Out: the body of `unit`. The padding left and right is written into the line, so that
nothing looks at borders later; a window costs kernel height + kernel width operations instead of their product, and
nearly all of them are on neighbouring floats. With the positions of maxima wanted, tap row by tap row instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....codegen.templates import render
from ....codegen.writer import INLINE, open_nested
from ..pool_windows import Window
from .pool_source import VECTORS, PoolSource


class Rows(PoolSource):
    def write(self) -> str:
        """Row by row of the output, in blocks of BLOCK windows."""
        w, last = self.w, self.rank - 1
        dims = list(range(last))
        self.windows()
        line, result_size, scratch = self._room()
        w.line(
            f"constexpr int64_t BLOCKS = (Width::O + BLOCK - 1) / BLOCK, TASKS = {self.tasks(dims)} * BLOCKS;"
        )
        w.line(f"constexpr int64_t LINE = {line}, SCRATCH = {scratch};")
        taps = "".join(f" * some({n}::K)" for n, _, _ in self._outer())
        w.line(f"constexpr int64_t grain = 1 + 16384 / some(LINE{taps});")
        with w.block(
            "ws::parallel_ranges(THREADS, TASKS, grain, [&](int64_t begin, int64_t end, int part)", "});"
        ):
            w.line("float* const line = (float*)workspace + part * SCRATCH;")
            w.line("float* const made = line + LINE;")
            if self.index:
                w.line(f"int32_t* const found = (int32_t*)(made + {result_size});")
            if self.computed and self._outer() and not self.index:
                w.line(f"float* const row = made + {result_size};")
            self.start(dims, block=True)
            with w.block("for (int64_t task = begin; task < end; ++task)"):
                self._block()
                if self.index:
                    self._rows_with_index()
                else:
                    self._combine_rows()
                    self._combine_columns()
                w.line("epilogue(made, at, length);")
                self.advance(dims, block=True)
            w.line("if (NT) ws::fence();")
        return f"(uint64_t)THREADS * ({scratch}) * sizeof(float)"

    def _room(self) -> tuple[str, str, str]:
        """Floats of the line, of the output block, and of all scratch of a thread, in terms of task.h alone."""
        last = self.rank - 1
        window = self.pool.windows[-1]
        result_size = f"{self.out}_shape[{last}]"
        block = f"({result_size} < BLOCK ? {result_size} : BLOCK)"
        step = (
            f"({self.size[last]} / ({result_size} > 0 ? {result_size} : 1) + 1)"
            if window.adaptive
            else f"{window.stride}"
        )
        reach = f"{step} + 2" if window.adaptive else f"{(window.kernel - 1) * window.dilation}"
        line = f"((({block} + VEC) * {step} + {reach} + 2 * VEC) + 15) / 16 * 16"
        block = f"(({block} + 2 * VEC) + 15) / 16 * 16"
        extra = f" + {block}" if self.index else f" + {line}" if self.computed and self._outer() else ""
        return line, block, f"{line} + {block}{extra}"

    def _block(self) -> None:
        """The columns of input that a block of windows covers, and those of them that exist."""
        self.w.paste(render("pool/cpu/row_block.h", index=f"at[{self.rank - 1}]"))
        self.taps(self._outer())

    def _pad_right(self) -> None:
        self.w.line("for (int64_t i = to < from ? from : to; i < high; ++i) line[i - low] = EMPTY;")

    def _combine_rows(self) -> None:
        w, outer = self.w, self._outer()
        w.line("// The rows of the windows, into one line.")
        if self.computed:
            self._source("from")
            if not outer:
                w.line("prologue0(inner, source, to - from);")
            else:
                w.line("for (int64_t i = 0; i < to - from; ++i) inner[i] = EMPTY;")
                with open_nested(w, self.loops(outer, "")):
                    self._move(outer)
                    w.line("prologue0(row, source, to - from);")
                    joined = self.join("ws::load(inner + j)", "ws::load(row + j)")
                    w.line(f"vectors(0, to - from, {VECTORS} {{ ws::store(inner + j, {joined}); }});")
        else:
            self._read_rows(outer)
        self._pad_right()

    def _read_rows(self, outer: Sequence[tuple[str, int, Window]]) -> None:
        w, last = self.w, self.rank - 1
        w.line(f"const int64_t origin = {self.origin()} + from * {self.into}_stride[{last}];")
        value = f"read<{self.into}_stride[{last}]>({self.into} + (origin{self.step(outer)}), j, n)"
        if not outer:
            w.line(f"vectors(0, to - from, {VECTORS} {{ ws::store(inner + j, {value}); }});")
            return
        with w.block(f"const auto column = [&](int64_t j, int n{self.parameters(outer)}) {INLINE}", "};"):
            w.line("ws::vf acc = ws::splat(EMPTY);")
            with open_nested(w, self.loops(outer, "01")):
                w.line(f"acc = {self.join('acc', value)};")
            w.line("ws::store(inner + j, acc);")
        for head, full in ((f"if ({self.full(outer)})", True), ("else", False)):
            w.line(
                f"{head} vectors(0, to - from, {VECTORS} {{ column(j, n, {self.ranges(outer, full)}); }});"
            )

    def _combine_columns(self) -> None:
        w, last = self.w, self.rank - 1
        w.line("// The columns of each window.")
        if not self.pool.maximum and self.pool.divisor is None and self._outer():
            w.line(f"const float rows = (float)({self.divisor(self._outer())});")
        with w.block(f"vectors(0, length, {VECTORS}", "});"):
            w.line("ws::vf acc = ws::splat(EMPTY);")
            if self.pool.windows[-1].adaptive:
                with w.block("if constexpr (!Width::even)"), w.block("for (int i = 0; i < n; ++i)"):
                    self._one_by_one(last)
                w.line("else")
            strided = "strided<Width::S>(line + (j * Width::S + k * Width::D), n)"
            w.line(f"for (int64_t k = 0; k < Width::K; ++k) acc = {self.join('acc', strided)};")
            w.line(f"ws::store(made + j, {self._row_divided(last)});")

    def _one_by_one(self, last: int) -> None:
        w = self.w
        w.line(f"const int64_t o = at[{last}] + j + i;")
        w.line("const float* const window = line + (Width::low(o) - low);")
        w.line("float one = EMPTY;")
        w.line(f"for (int64_t k = 0; k < Width::reach(o); ++k) one = {self.join('one', 'window[k]')};")
        w.line("acc[i] = one;")

    def _row_divided(self, last: int) -> str:
        if self.pool.maximum:
            return "acc"
        if self.pool.divisor is not None:
            return f"acc / {self.pool.divisor}.0f"
        padded = "true" if self.pool.padded else "false"
        count = f"counts<Width>(at[{last}] + j, n, {padded})"
        return f"acc / ({count} * rows)" if self._outer() else f"acc / {count}"

    # ---- with the positions of the maxima

    def _rows_with_index(self) -> None:
        """Tap row by tap row, best value and position so far kept in scratch. Among equals the first; the last NaN."""
        w, outer, last = self.w, self._outer(), self.rank - 1
        self.w.use("write_index")
        extent = " * ".join(f"{n}::I" for n, _, _ in self._dims())
        w.line(f'static_assert({extent} < (int64_t(1) << 31), "requires: positions below 2^31");')
        w.line("bool first = true;")
        if self.computed:
            self._source("from")
        else:
            w.line(f"const int64_t origin = {self.origin()} + from * {self.into}_stride[{last}];")
        with open_nested(w, self.loops(outer, "")):
            if self.computed:
                self._move(outer)
                w.line("prologue0(inner, source, to - from);")
            else:
                value = f"read<{self.into}_stride[{last}]>({self.into} + (origin{self.step(outer)}), j, n)"
                w.line(f"vectors(0, to - from, {VECTORS} {{ ws::store(inner + j, {value}); }});")
            self._pad_right()
            self._best_of_line(outer)
            w.line("first = false;")
        at = "".join(f" + at[{d}] * {self.index}_stride[{d}]" for d in range(self.rank))
        store = f"write_index<{self.index}_stride[{last}]>({self.index}{at}, j, ws::load(found + j), n)"
        w.line(f"vectors(0, length, {VECTORS} {{ {store}; }});")

    def _best_of_line(self, outer: Sequence[tuple[str, int, Window]]) -> None:
        row = "0"
        for name, d, _ in outer:
            row = f"({row} * {name}::I + {name}::low(at[{d}]) + {name[0].lower()} * {name}::D)"
        self.w.paste(render("pool/cpu/max_with_position.h", row=row))
