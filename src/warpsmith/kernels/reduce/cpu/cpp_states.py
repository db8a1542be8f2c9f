"""What a reduction keeps while it runs, as C++: accumulators in lanes, totals across chunks, and how partial
totals merge.

One class a kind, for rows (lanes are joined at the end of a chunk) and columns (each lane is a reduction of
its own). A chunk is a run of the data short enough that float32 sums of it stay accurate; chunks are joined
in double. Compound kinds go over a chunk twice while it is in the first-level cache: `accumulate_first` is their work in
the first loop, `accumulate_second` in the other one.
"""

from __future__ import annotations

from ....codegen.program import Expr
from ....codegen.templates import render
from ....codegen.writer import Writer

COMBINE = {
    "max": ("ws::max_nan({a}, {b})", "-ws::infinity", "hmax_nan"),
    "min": ("ws::min_nan({a}, {b})", "ws::infinity", "hmin_nan"),
    "fmax": ("ws::max({a}, {b})", "-ws::infinity", "hmax"),
    "prod": ("{a} * {b}", "1.0f", "hmul"),
}


class State:
    """Base: names, and what most kinds need not do."""

    two_loops = False
    slots = 1  # doubles that a partial total takes in the workspace

    def __init__(self, step: Expr, other: Expr | None, lanes: str) -> None:
        self.name, self.source, self.lanes, self.kind = step.name, step.args[0], lanes, step.reduction
        self.second_name = other.name if other is not None else f"{step.name}_sum"

    def declare(self, w: Writer) -> None: ...
    def open_chunk(self, w: Writer) -> None: ...
    def accumulate_first(self, w: Writer) -> None: ...
    def prepare_second(self, w: Writer) -> None: ...
    def accumulate_second(self, w: Writer) -> None: ...
    def close_chunk(self, w: Writer) -> None: ...
    def finish(self, w: Writer) -> None: ...
    def value(self, w: Writer) -> None: ...
    def save(self, w: Writer) -> None: ...
    def merge(self, w: Writer) -> None: ...

    def fill(self, w: Writer, array: str, value: str, kind: str = "ws::vf") -> None:
        w.line(f"{kind} {array}[{self.lanes}];")
        w.line(f"for ({kind}& lane : {array}) lane = {value};")

    def accumulate(self, w: Writer, array: str, now: str) -> None:
        w.use("keep")
        w.line(f"{array}[u] = keep(n, {now}, {array}[u]);")

    def join(self, w: Writer, array: str, combine: str) -> None:
        text = combine.format(a=f"{array}[0]", b=f"{array}[u]")
        w.line(f"for (int u = 1; u < {self.lanes}; ++u) {array}[0] = {text};")


class RowSum(State):
    def declare(self, w: Writer) -> None:
        w.line(f"double {self.name}_total = 0;")

    def open_chunk(self, w: Writer) -> None:
        w.line(f"ws::vf {self.name}_acc[{self.lanes}] = {{}};")

    def accumulate_first(self, w: Writer) -> None:
        self.accumulate(w, f"{self.name}_acc", f"{self.name}_acc[u] + {self.source}")

    def close_chunk(self, w: Writer) -> None:
        self.join(w, f"{self.name}_acc", "{a} + {b}")
        w.line(f"{self.name}_total += ws::hadd({self.name}_acc[0]);")

    def value(self, w: Writer) -> None:
        w.line(f"const float {self.name} = (float){self.name}_total;")

    def save(self, w: Writer) -> None:
        w.line(f"*slot++ = {self.name}_total;")

    def merge(self, w: Writer) -> None:
        w.line(f"{self.name}_total += *slot++;")


class RowCount(RowSum):
    """How many are true: a sum of 0 and 1, exact, as an integer."""

    def value(self, w: Writer) -> None:
        w.line(f"const int64_t {self.name} = (int64_t){self.name}_total;")


class RowExtremum(State):
    """max, min, prod: exact or order-insensitive enough to stay in float32 lanes throughout."""

    def declare(self, w: Writer) -> None:
        w.line(f"float {self.name}_total = {COMBINE[self.kind][1]};")
        self.fill(w, f"{self.name}_acc", f"ws::splat({COMBINE[self.kind][1]})")

    def accumulate_first(self, w: Writer) -> None:
        self.accumulate(
            w, f"{self.name}_acc", COMBINE[self.kind][0].format(a=self.source, b=f"{self.name}_acc[u]")
        )

    def finish(self, w: Writer) -> None:
        self.join(w, f"{self.name}_acc", COMBINE[self.kind][0])
        w.line(f"{self.name}_total = ws::{COMBINE[self.kind][2]}({self.name}_acc[0]);")

    def value(self, w: Writer) -> None:
        w.line(f"const float {self.name} = {self.name}_total;")

    def save(self, w: Writer) -> None:
        w.line(f"*slot++ = {self.name}_total;")

    def merge(self, w: Writer) -> None:
        w.line(
            f"{self.name}_total = {COMBINE[self.kind][0].format(a=f'{self.name}_total', b='(float)*slot++')};"
        )


class RowArgmax(State):
    slots = 2

    def declare(self, w: Writer) -> None:
        w.line(f"float {self.name}_best = -ws::infinity;")
        w.line(f"int64_t {self.name}_total = from;")
        self.fill(w, f"{self.name}_acc", "ws::splat(-ws::infinity)")
        w.line(f"ws::vi {self.name}_at[{self.lanes}];")
        w.line(
            f"for (int u = 0; u < {self.lanes}; ++u) {self.name}_at[u] = ws::iota() + (int)(from + u * VEC);"
        )

    def accumulate_first(self, w: Writer) -> None:
        x, best = self.source, f"{self.name}_acc[u]"
        w.line(f"ws::vm {self.name}_take = ({x} > {best}) | (({x} != {x}) & ({best} == {best}));")
        w.line(f"if (n != VEC) {self.name}_take &= ws::iota() < n;")
        w.line(f"{best} = ws::select({self.name}_take, {x}, {best});")
        w.line(f"{self.name}_at[u] = ws::select({self.name}_take, ws::iota() + (int)j, {self.name}_at[u]);")

    def finish(self, w: Writer) -> None:
        with w.block(f"for (int u = 0; u < {self.lanes}; ++u)"), w.block("for (int i = 0; i < VEC; ++i)"):
            self._take(w, f"{self.name}_acc[u][i]", f"{self.name}_at[u][i]")

    def _take(self, w: Writer, value: str, at: str) -> None:
        w.use("better")
        w.line(f"const bool take = better({value}, {at}, {self.name}_best, {self.name}_total);")
        w.line(f"{self.name}_total = take ? {at} : {self.name}_total;")
        w.line(f"{self.name}_best = take ? {value} : {self.name}_best;")

    def value(self, w: Writer) -> None:
        w.line(f"const int64_t {self.name} = {self.name}_total;")

    def save(self, w: Writer) -> None:
        w.line(f"*slot++ = {self.name}_best;")
        w.line(f"*slot++ = (double){self.name}_total;")

    def merge(self, w: Writer) -> None:
        with w.block(""):
            w.line("const float value = (float)slot[0];")
            w.line("const int64_t at = (int64_t)slot[1];")
            w.line("slot += 2;")
            self._take(w, "value", "at")


class RowMoments(State):
    two_loops = True
    slots = 3

    def declare(self, w: Writer) -> None:
        w.line(f"double {self.name}_count = 0, {self.name}_total = 0, {self.second_name}_total = 0;")

    def open_chunk(self, w: Writer) -> None:
        lanes = self.lanes
        w.line(f"ws::vf {self.name}_acc[{lanes}] = {{}}, {self.name}_rest[{lanes}] = {{}};")
        w.line(f"ws::vf {self.second_name}_acc[{lanes}] = {{}};")

    def accumulate_first(self, w: Writer) -> None:
        self.accumulate(w, f"{self.name}_acc", f"{self.name}_acc[u] + {self.source}")

    def prepare_second(self, w: Writer) -> None:
        self.join(w, f"{self.name}_acc", "{a} + {b}")
        w.line(f"const float {self.name}_origin = ws::hadd({self.name}_acc[0]) / (float)many;")
        w.line(f"const ws::vf {self.name}_shift = ws::splat({self.name}_origin);")

    def accumulate_second(self, w: Writer) -> None:
        w.line(f"const ws::vf {self.name}_off = {self.source} - {self.name}_shift;")
        acc, remainder = f"{self.second_name}_acc", f"{self.name}_rest"
        self.accumulate(w, remainder, f"{remainder}[u] + {self.name}_off")
        self.accumulate(w, acc, f"{acc}[u] + {self.name}_off * {self.name}_off")

    def close_chunk(self, w: Writer) -> None:
        self.join(w, f"{self.name}_rest", "{a} + {b}")
        self.join(w, f"{self.second_name}_acc", "{a} + {b}")
        w.line(f"const double {self.name}_tip = (double)ws::hadd({self.name}_rest[0]) / (double)many;")
        squares = f"ws::hadd({self.second_name}_acc[0]) - {self.name}_tip * {self.name}_tip * (double)many"
        self._merge(w, "(double)many", f"({self.name}_origin + {self.name}_tip)", squares)

    def _merge(self, w: Writer, count: str, mean: str, squares: str) -> None:
        """Chan's update of (count, mean, squared deviations) by those of a chunk."""
        with w.block(""):
            text = render(
                "reduce/cpu/merge_moments.h", count=count, mean=mean, squares=squares,
                all_count=f"{self.name}_count", all_mean=f"{self.name}_total", all_squares=f"{self.second_name}_total",
            )  # fmt: skip
            w.paste(text)

    def value(self, w: Writer) -> None:
        w.line(f"const float {self.name} = REDUCE == 0 ? ws::nan : (float){self.name}_total;")
        w.line(f"const float {self.second_name} = (float){self.second_name}_total;")

    def save(self, w: Writer) -> None:
        for text in (f"{self.name}_count", f"{self.name}_total", f"{self.second_name}_total"):
            w.line(f"*slot++ = {text};")

    def merge(self, w: Writer) -> None:
        w.line("if (slot[0] > 0)")
        self._merge(w, "slot[0]", "slot[1]", "slot[2]")
        w.line("slot += 3;")


class RowSoftmax(State):
    """Maximum and sum of exp(x - maximum); -inf alone leaves (-inf, 0)."""

    two_loops = True
    slots = 2

    def declare(self, w: Writer) -> None:
        w.line(f"float {self.name}_total = -ws::infinity;")
        w.line(f"double {self.second_name}_total = 0;")

    def open_chunk(self, w: Writer) -> None:
        self.fill(w, f"{self.name}_acc", "ws::splat(-ws::infinity)")
        w.line(f"ws::vf {self.second_name}_acc[{self.lanes}] = {{}};")

    def accumulate_first(self, w: Writer) -> None:
        self.accumulate(w, f"{self.name}_acc", f"ws::max({self.source}, {self.name}_acc[u])")

    def prepare_second(self, w: Writer) -> None:
        self.join(w, f"{self.name}_acc", "ws::max({a}, {b})")
        w.line(f"const float {self.name}_chunk = ws::hmax({self.name}_acc[0]);")
        infinite = f"ws::abs({self.name}_chunk) == ws::infinity"
        w.line(f"const ws::vf {self.name}_shift = ws::splat({infinite} ? 0.0f : {self.name}_chunk);")

    def accumulate_second(self, w: Writer) -> None:
        acc = f"{self.second_name}_acc"
        self.accumulate(w, acc, f"{acc}[u] + ws::exp(ws::sub({self.source}, {self.name}_shift))")

    def close_chunk(self, w: Writer) -> None:
        self.join(w, f"{self.second_name}_acc", "{a} + {b}")
        self._merge(w, f"{self.name}_chunk", f"ws::hadd({self.second_name}_acc[0])")

    def _merge(self, w: Writer, top: str, total: str) -> None:
        with w.block(""):
            text = render(
                "reduce/cpu/merge_softmax.h", top=top, sum=total,
                all_top=f"{self.name}_total", all_sum=f"{self.second_name}_total",
            )  # fmt: skip
            w.paste(text)

    def value(self, w: Writer) -> None:
        w.line(f"const float {self.name} = {self.name}_total;")
        w.line(f"const float {self.second_name} = (float){self.second_name}_total;")

    def save(self, w: Writer) -> None:
        w.line(f"*slot++ = {self.name}_total;")
        w.line(f"*slot++ = {self.second_name}_total;")

    def merge(self, w: Writer) -> None:
        self._merge(w, "(float)slot[0]", "slot[1]")
        w.line("slot += 2;")


ROW_STATES: dict[str, type[State]] = {
    "sum": RowSum, "count": RowCount, "max": RowExtremum, "min": RowExtremum, "fmax": RowExtremum, "prod": RowExtremum,
    "argmax": RowArgmax,
    "moments": RowMoments, "softmax": RowSoftmax,
}  # fmt: skip
