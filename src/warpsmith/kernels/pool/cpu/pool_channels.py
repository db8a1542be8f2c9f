"""A pooling where channels lie next to each other (channels-last): pixel by pixel, lanes are channels.

In: an anchor and its `Pool`. Out: the body of `unit`. The taps of a window that exist are found once a pixel; all
of its channels are then combined over them, with constant bounds away from the image's borders.
"""

from __future__ import annotations

from ....codegen.writer import INLINE, open_nested
from .pool_source import VECTORS, PoolSource


class Channels(PoolSource):
    def write(self) -> str:
        """Pixel by pixel; lanes are channels."""
        w, run = self.w, self.run
        dims = [d for d in range(self.rank) if d != run]
        channels = f"{self.out}_shape[{run}]"
        room = f"({channels} + 2 * VEC + 15) / 16 * 16"
        buffers = 2 if self.computed else 1
        self.windows()
        w.line(f"constexpr int64_t CHANNELS = {channels}, SCRATCH = {buffers} * ({room});")
        w.line(f"constexpr int64_t PIXELS = CHANNELS > 0 ? {self.tasks(dims)} : 0;")
        w.line("constexpr int64_t grain = 1 + 4096 / some(CHANNELS);")
        with w.block(
            "ws::parallel_ranges(THREADS, PIXELS, grain, [&](int64_t begin, int64_t end, int part)", "});"
        ):
            w.line("float* const made = (float*)workspace + part * SCRATCH;")
            if self.computed:
                w.line("float* const tap = made + SCRATCH / 2;")
            self.start(dims, block=False)
            with w.block("for (int64_t task = begin; task < end; ++task)"):
                self.taps(self._dims())
                if self.computed:
                    self._channels_computed()
                else:
                    self._channels_read()
                w.line("epilogue(made, at, CHANNELS);")
                self.advance(dims, block=False)
            w.line("if (NT) ws::fence();")
        return f"(uint64_t)THREADS * {buffers} * ({room}) * sizeof(float)"

    def _channels_read(self) -> None:
        w, dims = self.w, self._dims()
        w.line(f"const int64_t origin = {self.origin()};")
        self._pixel_divisor()
        with w.block(f"const auto pixel = [&](int64_t j, int n{self.parameters(dims)}) {INLINE}", "};"):
            w.line("ws::vf acc = ws::splat(EMPTY);")
            with open_nested(w, self.loops(dims, "01")):
                value = f"read<{self.into}_stride[{self.run}]>({self.into} + (origin{self.step(dims)}), j, n)"
                w.line(f"acc = {self.join('acc', value)};")
            w.line(f"ws::store(made + j, {self._divide_by_count('acc')});")
        for head, full in ((f"if ({self.full(dims)})", True), ("else", False)):
            w.line(f"{head} vectors(0, CHANNELS, {VECTORS} {{ pixel(j, n, {self.ranges(dims, full)}); }});")

    def _channels_computed(self) -> None:
        w, dims = self.w, self._dims()
        self._pixel_divisor()
        self._source("0")
        w.line(f"vectors(0, CHANNELS, {VECTORS} {{ ws::store(made + j, ws::splat(EMPTY)); }});")
        with open_nested(w, self.loops(dims, "")):
            self._move(dims)
            w.line("prologue0(tap, source, CHANNELS);")
            joined = self.join("ws::load(made + j)", "ws::load(tap + j)")
            w.line(f"vectors(0, CHANNELS, {VECTORS} {{ ws::store(made + j, {joined}); }});")
        if not self.pool.maximum:
            divided = self._divide_by_count("ws::load(made + j)")
            w.line(f"vectors(0, CHANNELS, {VECTORS} {{ ws::store(made + j, {divided}); }});")

    def _pixel_divisor(self) -> None:
        if not self.pool.maximum:
            text = str(self.pool.divisor) if self.pool.divisor is not None else self.divisor(self._dims())
            self.w.line(f"const float divisor = (float)({text});")

    def _divide_by_count(self, value: str) -> str:
        return value if self.pool.maximum else f"{value} / divisor"
