"""C++ of a pooling: along rows of the image, or across channels where those lie next to each other.

In: an anchor, its `Pool`. Out: the body of `unit`. Rows: the input rows that a row of windows covers are combined
into one line, whose padding is written once a line, so that the windows' columns are then combined from the line
without looking at borders: kernel height + kernel width operations instead of their product, and nearly all of them
on neighbouring floats. Channels: each pixel's windows over vectors of channels, taps clipped once a pixel.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....codegen.writer import INLINE, Writer
from ...anchored import Anchor, extents
from ..pool_windows import Pool, Window

NAMES = ("Depth", "Height", "Width")
VECTORS = f"[&](int64_t j, int n, int) {INLINE}"


class PoolSource:
    """Writes the body. `run`: the dimension along which the epilogue takes its runs."""

    def __init__(self, w: Writer, anchor: Anchor, pool: Pool, run: int) -> None:
        self.w, self.pool, self.run = w, pool, run
        node = anchor.node
        source = node.uses[0]
        self.rank = len(anchor.graph.specs[source].shape)
        self.first = self.rank - len(pool.windows)  # the outermost dimension with windows
        self.out = next(o for o in anchor.names.values() if o.startswith("out"))
        self.into = anchor.names.get(source, "")
        self.computed = bool(anchor.before.get(source))
        self.size = extents(anchor, source)
        self.index = anchor.names.get(pool.indices, "")
        w.use("read")
        w.use("vectors")

    # ---- what both ways share

    def windows(self) -> None:
        """The windows of each dimension as types, and what a variant's shapes must agree with."""
        w = self.w
        for name, dim, window in self._dims():
            result_size = f"{self.out}_shape[{dim}]"
            if window.adaptive:
                w.line(f"using {name} = Adaptive<{self.size[dim]}, {result_size}>;")
                continue
            k, s, p, d = window.kernel, window.stride, window.padding, window.dilation
            w.line(f"using {name} = Fixed<{self.size[dim]}, {result_size}, {k}, {s}, {p}, {d}>;")
            ceil = "true" if self.pool.ceil else "false"
            check = f"{result_size} == pooled({self.size[dim]}, {k}, {s}, {p}, {d}, {ceil}) || {self.out}_numel == 0"
            w.line(f'static_assert({check}, "requires: {name} with {k} taps");')
        w.line(f"constexpr float EMPTY = {'-ws::infinity' if self.pool.maximum else '0.0f'};")

    def _dims(self) -> list[tuple[str, int, Window]]:
        names = NAMES[3 - len(self.pool.windows) :]
        return [
            (n, self.first + i, win) for i, (n, win) in enumerate(zip(names, self.pool.windows, strict=True))
        ]

    def _outer(self) -> list[tuple[str, int, Window]]:
        return self._dims()[:-1]

    def join(self, old: str, new: str) -> str:
        return f"ws::max_nan({old}, {new})" if self.pool.maximum else f"{old} + {new}"

    def start(self, dims: Sequence[int], block: bool) -> None:
        """`at` (and the block) of a thread's first task."""
        w = self.w
        w.line(f"int64_t at[{self.rank}] = {{}}, rest = begin;")
        if block:
            w.line("int64_t block = rest % some(BLOCKS);")
            w.line("rest /= some(BLOCKS);")
        for d in reversed(dims):
            w.line(f"at[{d}] = rest % some({self.out}_shape[{d}]), rest /= some({self.out}_shape[{d}]);")

    def advance(self, dims: Sequence[int], block: bool) -> None:
        w = self.w
        if block:
            w.line("if (++block < BLOCKS) continue;")
            w.line("block = 0;")
        for d in reversed(dims[1:]):
            w.line(f"if (++at[{d}] < {self.out}_shape[{d}]) continue;")
            w.line(f"at[{d}] = 0;")
        if dims:
            w.line(f"++at[{dims[0]}];")

    def taps(self, dims: Sequence[tuple[str, int, Window]]) -> None:
        """Which taps of the task's window exist, dimension by dimension."""
        for name, dim, _ in dims:
            n = name.lower()
            self.w.line(
                f"const int64_t {n}_begin = {name}::begin(at[{dim}]), {n}_end = {name}::end(at[{dim}]);"
            )

    def full(self, dims: Sequence[tuple[str, int, Window]]) -> str:
        return " && ".join(f"{n.lower()}_end - {n.lower()}_begin == {n}::K" for n, _, _ in dims)

    def ranges(self, dims: Sequence[tuple[str, int, Window]], full: bool) -> str:
        """Arguments begin, end … of a function over the taps; constants where all of them exist."""
        parts = [("0", f"{n}::K") if full else (f"{n.lower()}_begin", f"{n.lower()}_end") for n, _, _ in dims]
        return ", ".join(text for part in parts for text in part)

    def loops(self, dims: Sequence[tuple[str, int, Window]], suffix: str) -> list[str]:
        """Loop heads over taps d, h, w; `suffix` "0"/"1": the bounds are parameters."""
        loops = []
        for name, _, _ in dims:
            n, k = name.lower(), name[0].lower()
            low, high = (f"{k}0", f"{k}1") if suffix else (f"{n}_begin", f"{n}_end")
            loops.append(f"for (int64_t {k} = {low}; {k} < {high}; ++{k})")
        return loops

    def parameters(self, dims: Sequence[tuple[str, int, Window]]) -> str:
        return "".join(f", int64_t {n[0].lower()}0, int64_t {n[0].lower()}1" for n, _, _ in dims)

    def step(self, dims: Sequence[tuple[str, int, Window]]) -> str:
        """From a window's first tap to tap d, h, w, in elements."""
        return "".join(f" + {n[0].lower()} * {n}::D * {self.into}_stride[{d}]" for n, d, _ in dims)

    def origin(self) -> str:
        """Return the start of the task's window in the input, in elements; along the run excepted."""
        lows = {d: f"{n}::low(at[{d}])" for n, d, _ in self._dims()}
        terms = [
            f"{lows.get(d, f'at[{d}]')} * {self.into}_stride[{d}]" for d in range(self.rank) if d != self.run
        ]
        return " + ".join(terms) or "0"

    def divisor(self, dims: Sequence[tuple[str, int, Window]]) -> str:
        padded = "true" if self.pool.padded else "false"
        return " * ".join(f"{n}::count(at[{d}], {padded})" for n, d, _ in dims)

    def tasks(self, dims: Sequence[int]) -> str:
        return " * ".join(f"{self.out}_shape[{d}]" for d in dims) or "1"

    def _source(self, run: str) -> None:
        """The index at which a computed input is asked for."""
        spatial = {d for _, d, _ in self._dims()}
        parts = [run if d == self.run else "0" if d in spatial else f"at[{d}]" for d in range(self.rank)]
        self.w.line(f"int64_t source[{self.rank}] = {{{', '.join(parts)}}};")

    def _move(self, dims: Sequence[tuple[str, int, Window]]) -> None:
        for name, d, _ in dims:
            self.w.line(f"source[{d}] = {name}::low(at[{d}]) + {name[0].lower()} * {name}::D;")
