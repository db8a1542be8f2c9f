"""States of reductions in columns mode: `name[b]` for each of the BLOCK vectors of columns; no lane ever
meets another.

As in `states`: sums are flushed into double once a chunk of rows; compounds go over a chunk twice and merge
lane by lane.
"""

from __future__ import annotations

from ....codegen.templates import render
from ....codegen.writer import Writer
from .cpp_states import COMBINE, State


class ColumnState(State):
    def each(self, w: Writer, text: str) -> None:
        w.line(f"for (int b = 0; b < BLOCK; ++b) {text}")


class ColumnSum(ColumnState):
    def declare(self, w: Writer) -> None:
        w.line(f"ws::vd {self.name}_total[BLOCK] = {{}};")

    def open_chunk(self, w: Writer) -> None:
        w.line(f"ws::vf {self.name}_acc[BLOCK] = {{}};")

    def accumulate_first(self, w: Writer) -> None:
        w.line(f"{self.name}_acc[b] += {self.source};")

    def close_chunk(self, w: Writer) -> None:
        self.each(w, f"{self.name}_total[b] += ws::widen({self.name}_acc[b]);")

    def value(self, w: Writer) -> None:
        w.line(f"ws::vf {self.name}[BLOCK];")
        self.each(w, f"{self.name}[b] = ws::narrow({self.name}_total[b]);")


class ColumnCount(ColumnSum):
    """How many are true: a sum of 0 and 1, exact, as integers."""

    def value(self, w: Writer) -> None:
        w.line(f"ws::vl {self.name}[BLOCK];")
        self.each(w, f"{self.name}[b] = ws::to_long({self.name}_total[b]);")


class ColumnExtremum(ColumnState):
    def declare(self, w: Writer) -> None:
        self.fill(w, self.name, f"ws::splat({COMBINE[self.kind][1]})")

    def accumulate_first(self, w: Writer) -> None:
        w.line(f"{self.name}[b] = {COMBINE[self.kind][0].format(a=self.source, b=f'{self.name}[b]')};")


class ColumnArgmax(ColumnState):
    def declare(self, w: Writer) -> None:
        self.fill(w, f"{self.name}_best", "ws::splat(-ws::infinity)")
        w.line(f"ws::vi {self.name}[BLOCK] = {{}};")

    def accumulate_first(self, w: Writer) -> None:
        x, best = self.source, f"{self.name}_best[b]"
        w.line(f"const ws::vm {self.name}_take = ({x} > {best}) | (({x} != {x}) & ({best} == {best}));")
        w.line(f"{best} = ws::select({self.name}_take, {x}, {best});")
        w.line(f"{self.name}[b] = ws::select({self.name}_take, ws::splat_int((int)INDEX), {self.name}[b]);")


class ColumnMoments(ColumnState):
    two_loops = True

    def declare(self, w: Writer) -> None:
        w.line(f"double {self.name}_count = 0;")
        w.line(f"ws::vd {self.name}_total[BLOCK] = {{}}, {self.second_name}_total[BLOCK] = {{}};")

    def open_chunk(self, w: Writer) -> None:
        w.line(f"ws::vf {self.name}_acc[BLOCK] = {{}}, {self.second_name}_acc[BLOCK] = {{}};")
        w.line(f"ws::vf {self.name}_shift[BLOCK], {self.name}_rest[BLOCK] = {{}};")

    def accumulate_first(self, w: Writer) -> None:
        w.line(f"{self.name}_acc[b] += {self.source};")

    def prepare_second(self, w: Writer) -> None:
        self.each(w, f"{self.name}_shift[b] = {self.name}_acc[b] / (float)many;")

    def accumulate_second(self, w: Writer) -> None:
        w.line(f"const ws::vf {self.name}_off = {self.source} - {self.name}_shift[b];")
        w.line(f"{self.name}_rest[b] += {self.name}_off;")
        w.line(f"{self.second_name}_acc[b] += {self.name}_off * {self.name}_off;")

    def close_chunk(self, w: Writer) -> None:
        text = render(
            "reduce/cpu/merge_column_moments.h", count=f"{self.name}_count", mean=f"{self.name}_total",
            squares=f"{self.second_name}_total", more=f"{self.name}_more", all=f"{self.name}_all",
            rest=f"{self.name}_rest", shift=f"{self.name}_shift", chunk_squares=f"{self.second_name}_acc",
        )  # fmt: skip
        w.paste(text)

    def value(self, w: Writer) -> None:
        w.line(f"[[maybe_unused]] ws::vf {self.name}[BLOCK], {self.second_name}[BLOCK];")
        self.each(w, f"{self.name}[b] = REDUCE == 0 ? ws::splat(ws::nan) : ws::narrow({self.name}_total[b]);")
        self.each(w, f"{self.second_name}[b] = ws::narrow({self.second_name}_total[b]);")


class ColumnSoftmax(ColumnState):
    two_loops = True

    def declare(self, w: Writer) -> None:
        self.fill(w, self.name, "ws::splat(-ws::infinity)")
        w.line(f"ws::vf {self.second_name}[BLOCK] = {{}};")

    def open_chunk(self, w: Writer) -> None:
        self.fill(w, f"{self.name}_chunk", "ws::splat(-ws::infinity)")
        w.line(f"ws::vf {self.second_name}_acc[BLOCK] = {{}}, {self.name}_shift[BLOCK];")

    def accumulate_first(self, w: Writer) -> None:
        w.line(f"{self.name}_chunk[b] = ws::max({self.source}, {self.name}_chunk[b]);")

    def prepare_second(self, w: Writer) -> None:
        chunk = f"{self.name}_chunk[b]"
        self.each(
            w,
            f"{self.name}_shift[b] = ws::select(ws::abs({chunk}) == ws::infinity, ws::splat(0.0f), {chunk});",
        )

    def accumulate_second(self, w: Writer) -> None:
        w.line(f"{self.second_name}_acc[b] += ws::exp(ws::sub({self.source}, {self.name}_shift[b]));")

    def close_chunk(self, w: Writer) -> None:
        text = render(
            "reduce/cpu/merge_column_softmax.h", top=self.name, sum=self.second_name,
            chunk_top=f"{self.name}_chunk", chunk_sum=f"{self.second_name}_acc",
        )  # fmt: skip
        w.paste(text)


COLUMN_STATES: dict[str, type[State]] = {
    "sum": ColumnSum, "count": ColumnCount, "max": ColumnExtremum, "min": ColumnExtremum, "fmax": ColumnExtremum,
    "prod": ColumnExtremum,
    "argmax": ColumnArgmax, "moments": ColumnMoments, "softmax": ColumnSoftmax,
}  # fmt: skip
