"""Interpolation to other sizes over one to three dimensions: nearest neighbour and (bi-, tri-) linear.

In: `upsample_nearest*`, `upsample_linear1d`, `upsample_bilinear2d`, `upsample_trilinear3d` nodes of float images in (N, C, ...)
order. Out: units that stretch each input row once, keep the stretched rows that neighbouring output rows share, and
mix them. Declines: channels-last images (lanes would have to be channels), antialiasing, bicubic, the "exact" nearest.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Any

from ....codegen.lowering.axis_relations import base_name
from ....codegen.lowering.op_builder import FLOATS, option
from ....codegen.templates import render
from ....codegen.writer import INLINE, SOME, Writer, open_nested
from ....facts import Facts
from ....records import Graph, Node, Region
from ...anchored import Anchor, extents
from ...cpp_anchored import CppAnchored
from ...family import Technique, stream_tunable, tunable, vector_tunable

LINEAR = MappingProxyType({"upsample_linear1d": 1, "upsample_bilinear2d": 2, "upsample_trilinear3d": 3})
NEAREST = MappingProxyType({"upsample_nearest1d": 1, "upsample_nearest2d": 2, "upsample_nearest3d": 3})


@dataclass(frozen=True)
class Resize:
    linear: bool
    corners: bool  # align_corners
    scales: tuple[
        float | None, ...
    ]  # output elements an input element where the caller said; None: from the sizes


def read_resize(graph: Graph, node: Node) -> Resize | None:
    """Read an interpolation; None where the node is none that can be written."""
    name, overload = base_name(node), node.op.split(".")[-1]
    count = LINEAR.get(name) or NEAREST.get(name)
    if count is None or overload not in ("default", "vec"):
        return None
    source, result = graph.specs[node.uses[0]], node.output.spec
    if source.dtype not in FLOATS or result.dtype != source.dtype or len(source.shape) != count + 2:
        return None
    if min(source.shape[2:]) == 0 or (
        result.stride[1] == 1 and result.shape[1] > 1 and result.stride[-1] != 1
    ):
        return None
    linear = name in LINEAR
    scales = _scales(node, count, 3 if linear else 2, overload == "vec")
    return (
        None
        if scales is None
        else Resize(linear, linear and bool(option(node, 2, "align_corners", False)), scales)
    )


def _scales(node: Node, count: int, position: int, vec: bool) -> tuple[float | None, ...] | None:
    if vec:
        factors: Any = option(node, position, "scale_factors", None) or [None] * count
    else:
        names = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}[count]
        factors = [option(node, position + i, n, None) for i, n in enumerate(names)]
    if len(factors) != count or not all(s is None or (isinstance(s, int | float) and s > 0) for s in factors):
        return None
    return tuple(None if s is None else float(s) for s in factors)


class CppUpsample(CppAnchored):
    name = "upsample"

    def covers(self, graph: Graph, node: Node) -> bool:
        return base_name(node) in LINEAR or base_name(node) in NEAREST

    def supports(self, graph: Graph, node: Node) -> bool:
        return read_resize(graph, node) is not None

    def prologues(self, graph: Graph, node: Node) -> tuple[str, ...]:
        """Rows are computed once and kept, unless the image shrinks so much that most are never looked at."""
        size, result_size = graph.specs[node.uses[0]].shape, node.output.spec.shape
        return (node.uses[0],) if all(n <= 2 * o for n, o in zip(size, result_size, strict=True)) else ()

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        anchor = self.anchor(graph, region)
        if anchor is None:
            return []
        why = "each input row is stretched once; neighbouring output rows share the stretched rows"
        common = (vector_tunable(facts), tunable("UNROLL", 2, 1, 4), stream_tunable(graph, region, facts))
        return [Technique("separable-rows", why, "memory", common)]

    def helpers(self, anchor: Anchor, technique: Technique) -> str:
        return SOME + render("resize/cpu/source_index.h")

    def body(self, w: Writer, anchor: Anchor, technique: Technique) -> str:
        resize = read_resize(anchor.graph, anchor.node)
        assert resize is not None  # anchor() refuses others
        return _Rows(w, anchor, resize).write()


class _Rows:
    """Writes the body: one task for each output row."""

    def __init__(self, w: Writer, anchor: Anchor, resize: Resize) -> None:
        self.w, self.resize = w, resize
        source = anchor.node.uses[0]
        self.rank = len(resize.scales) + 2
        self.last = self.rank - 1
        self.outer = list(range(2, self.last))
        self.size = extents(anchor, source)
        self.out = next(o for o in anchor.names.values() if o.startswith("out"))
        self.into = anchor.names.get(source, "")
        self.computed = bool(anchor.before.get(source))
        self.kept = 2 ** len(self.outer) if resize.linear else 1  # stretched rows

    def write(self) -> str:
        w, out = self.w, self.out
        line = f"(({self.size[self.last]} + VEC + 15) / 16 * 16)"
        row_floats = f"(({out}_shape[{self.last}] + VEC + 15) / 16 * 16)"
        scratch = f"({line} + {self.kept + 4} * {row_floats})"
        w.line(f"constexpr int64_t I = {self.size[self.last]}, O = {out}_shape[{self.last}];")
        w.line(f"constexpr int64_t MADE = {row_floats}, SCRATCH = {scratch};")
        rows = " * ".join(f"{out}_shape[{d}]" for d in range(self.last))
        w.line(f"constexpr int64_t ROWS = O > 0 ? {rows} : 0, grain = 1 + 16384 / some(O);")
        w.use("vectors")
        head = "ws::parallel_ranges(THREADS, ROWS, grain, [&](int64_t begin, int64_t end, int thread)"
        with w.block(head, "});"):
            self._tables(line)
            with w.block("for (int64_t task = begin; task < end; ++task)"):
                self._row()
            w.line("if (NT) ws::fence();")
        return f"(uint64_t)THREADS * {scratch} * sizeof(float)"

    def spot(self, dim: int, index: str) -> str:
        """Return the source of the output element `index` of a dimension."""
        size, result_size = self.size[dim], f"{self.out}_shape[{dim}]"
        kind, corners = (
            ("linear", "true" if self.resize.corners else "false")
            if self.resize.linear
            else ("nearest", "false")
        )
        given = self.resize.scales[dim - 2]
        scale = (
            f"(float)(1.0 / {given!r})"
            if given is not None
            else f"(float){size} / (float)some({result_size})"
        )
        if self.resize.corners:
            scale = f"({result_size} > 1 ? (float)({size} - 1) / (float)some({result_size} - 1) : 0.0f)"
        return f"{kind}({index}, {size}, {result_size}, {scale}, {corners})"

    def _tables(self, line: str) -> None:
        """Scratch of a thread, and the columns' sources, found once."""
        text = render(
            "resize/cpu/row_buffers.h", line_floats=line, rows=self.kept, no_rows=", ".join(["-1"] * self.kept),
            source=self.spot(self.last, "j"),
        )  # fmt: skip
        self.w.paste(text)

    def _row(self) -> None:
        w = self.w
        w.line(f"int64_t at[{self.rank}] = {{}}, rest = task;")
        for d in reversed(range(self.last)):
            size = f"some({self.out}_shape[{d}])"
            w.line(f"at[{d}] = rest % {size}, rest /= {size};")
        for d in self.outer:
            w.line(f"const Spot spot{d} = {self.spot(d, f'at[{d}]')};")
        sides = [("first", "second") if self.resize.linear else ("first",) for _ in self.outer]
        for corner in product(*sides):
            self._stretch(dict(zip(self.outer, corner, strict=True)))
        self._mix(list(product(*sides)))
        w.line("epilogue(made, at, O);")

    def slot(self, place: dict[int, str]) -> str:
        """Which kept row an input row goes to: the parity of its indices, since neighbours are mixed."""
        text = "0"
        if self.resize.linear:
            for d, side in place.items():
                text = f"({text} * 2 + spot{d}.{side} % 2)"
        return text

    def _stretch(self, place: dict[int, str]) -> None:
        """Makes sure that the input row at `place` lies stretched in its slot."""
        w = self.w
        index = [f"spot{d}.{place[d]}" if d in place else f"at[{d}]" for d in range(self.last)] + ["0"]
        row = "0"
        for d in range(self.last):
            row = f"({row} * {self.size[d]} + {index[d]})"
        w.line(f"if (const int64_t row = {row}, slot = {self.slot(place)}; held[slot] != row) {{")
        w.line("  held[slot] = row;")
        if self.computed:
            w.line(f"  const int64_t source[{self.rank}] = {{{', '.join(index)}}};")
            w.line("  prologue0(line, source, I);")
        else:
            w.use("read")
            start = " + ".join(f"{index[d]} * {self.into}_stride[{d}]" for d in range(self.last))
            value = f"read<{self.into}_stride[{self.last}]>({self.into} + ({start}), j, n)"
            w.line(
                f"  vectors(0, I, [&](int64_t j, int n, int) {INLINE} {{ ws::store(line + j, {value}); }});"
            )
        w.line("  float* const to = kept + slot * MADE;")
        mixed = "line[left[j]] * (1.0f - weight[j]) + line[right[j]] * weight[j]"
        w.line(
            f"  for (int64_t j = 0; j < O; ++j) to[j] = {mixed if self.resize.linear else 'line[left[j]]'};"
        )
        w.line("}")

    def _mix(self, corners: list[tuple[str, ...]]) -> None:
        """The rows between: along the innermost of the outer dimensions first."""
        w = self.w
        values = [
            f"ws::load(kept + ({self.slot(dict(zip(self.outer, c, strict=True)))}) * MADE + j)"
            for c in corners
        ]
        if self.resize.linear:
            for d in reversed(self.outer):
                pairs = zip(values[::2], values[1::2], strict=True)
                values = [f"({a} * (1.0f - spot{d}.weight) + {b} * spot{d}.weight)" for a, b in pairs]
        with open_nested(w, ["for (int64_t j = 0; j < O; j += VEC)"]):
            w.line(f"ws::store(made + j, {values[0]});")
