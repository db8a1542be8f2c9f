"""Loops of a convolution as C++ text: in a window's numbers and the names of its operands, out the body of `unit`.

Everything is a sum of shifted runs. A thread packs the padded rows that a band of output rows needs into its
scratch as float32, columns and rows of one remainder modulo the stride side by side (a *phase*), so that the
inner loops read neighbours whatever the stride, the dilation, the dtype or the layout of the input, and never
test for a border. One- and two-dimensional convolutions are three-dimensional ones of depth (and height) 1.

`write_flat` runs over the rows of a band as one, BLOCK output channels × UNROLL vectors in registers; `write_rows`
holds BLOCK output rows of one channel × UNROLL vectors, so that a loaded vector serves several rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from .text import Writer

COLUMNS = 2048  # output columns packed at a time at most
PARALLEL = 1 << 17  # multiply-adds below which no further thread is woken


@dataclass(frozen=True)
class Window:
    """Stride, padding before and after, dilation: one for each spatial dimension. `extents`: the input's shape as
    C++. `width`: the output's where it is cut short."""

    stride: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    dilation: tuple[int, ...]
    extents: tuple[str, ...]
    width: str
    weight: str  # operand
    bias: str  # operand, "" for none

    @property
    def rank(self) -> int:
        return len(self.extents)


def workspace(window: Window, rows: bool) -> str:
    """Bytes: the packed weights, and each thread's scratch, as one C++ expression of task.h's constants."""
    text = " ".join(_constants(window, rows))
    return f"[] {{ {text} return (WEIGHTS + THREADS * SCRATCH) * (int64_t)sizeof(float); }}()"


def write_flat(w: Writer, window: Window) -> None:
    _write(w, window, False, _put(_FLAT, "@STRIPS", _strips(_FLAT_SUMS, "start[o]", "run")))


def write_rows(w: Writer, window: Window) -> None:
    _write(w, window, True, _put(_ROWS, "@STRIPS", _strips(_ROWS_SUMS, "start", "cols")))


def _strips(sums: str, start: str, length: str) -> str:
    """BLOCK times `length` sums, a strip of vectors at a time: from `start` on, by `sums`, into the tile."""
    return _put(_STRIPS, "@SUMS", sums).replace("@START", start).replace("@LENGTH", length)


def _put(text: str, mark: str, inner: str) -> str:
    """`inner` in place of the line `mark` and as deep; directives stay at the margin."""
    found: list[str] = []
    for line in text.splitlines(keepends=True):
        pad = line.partition(mark)[0] if line.strip() == mark else None
        own = [line] if pad is None else inner.splitlines(keepends=True)
        found += [part if part.startswith("#") else f"{pad or ''}{part}" for part in own]
    return "".join(found)


def _write(w: Writer, window: Window, rows: bool, loops: str) -> None:
    for line in _constants(window, rows):
        w.line(line)
    spatial = ["od", "top + r", "left"][5 - window.rank :]
    texts = {
        "@OUT": ", ".join(["n", "channel", *spatial]),
        "@IN": ", ".join(["n", "g * IC + c", *["d", "h", "first_column + from"][5 - window.rank :]]),
        "@BIAS": f"ws::load_one({window.bias} + channel * {window.bias}_stride[0])"
        if window.bias
        else "0.0f",
        "@WEIGHT": window.weight,
        "@TAP": "".join(
            f" + {index} * {window.weight}_stride[{d}]"
            for d, index in enumerate(["channel", "c", *["kd", "kh", "kw"][5 - window.rank :]])
        ),
        "@WIDE": "1" if rows else "BLOCK",
        "@PARALLEL": str(PARALLEL),
    }
    body = _WEIGHTS + _put(_TASKS, "@LOOPS", loops)
    for mark, text in texts.items():
        body = body.replace(mark, text)
    for line in body.splitlines():
        w.line(line)


def _constants(window: Window, rows: bool) -> list[str]:
    """Declarations: of the convolution, of the cut into tasks, of the scratch."""
    pad = 5 - window.rank
    found = {
        "N": window.extents[0], "OC": f"{window.weight}_shape[0]", "IC": f"{window.weight}_shape[1]",
        "G": f"{window.extents[1]} / IC", "OG": "OC / G",
    }  # fmt: skip
    for d, axis in enumerate("DHW"):
        s = d - pad
        found |= {
            f"I{axis}": window.extents[2 + s] if s >= 0 else "1",
            f"K{axis}": f"{window.weight}_shape[{2 + s}]" if s >= 0 else "1",
            f"S{axis}": str(window.stride[s]) if s >= 0 else "1",
            f"P{axis}": str(window.before[s]) if s >= 0 else "0",
            f"Q{axis}": str(window.after[s]) if s >= 0 else "0",
            f"D{axis}": str(window.dilation[s]) if s >= 0 else "1",
            f"O{axis}": f"(I{axis} + P{axis} + Q{axis} - D{axis} * (K{axis} - 1) - 1) / S{axis} + 1",
        }
    if window.width:
        found["OW"] = window.width
    found |= {
        "IMAGES": "most(1, N * G * OD)",
        "PIECES": "(2 * THREADS + IMAGES - 1) / IMAGES",
        "ROWS": "least(BAND, (OH + PIECES - 1) / PIECES)",
        "COLS": f"most(1, least(least(OW, {COLUMNS}), OH > 1 ? OW : up((OW + PIECES - 1) / PIECES, VEC)))",
        "BANDS": "(OH + ROWS - 1) / ROWS",
        "SEGMENTS": "(OW + COLS - 1) / COLS",
        "BLOCKS": "OG" if rows else "(OG + BLOCK - 1) / BLOCK",
        "TAPS": "IC * KD * KH * KW",
        "PITCH": "COLS + (KW - 1) * DW / SW",
        "PHASE": f"PITCH * ({'up(ROWS, BLOCK)' if rows else 'ROWS'} + (KH - 1) * DH / SH)",
        "PLANE": "SH * SW * PHASE",
        "RUN": f"up({'COLS' if rows else '(ROWS - 1) * PITCH + COLS'}, UNROLL * VEC)",
        "PACKED": "up(IC * KD * PLANE + UNROLL * VEC, 16)",
        "TILE": "up(BLOCK * RUN, 16)",
        "SCRATCH": "PACKED + TILE + up(SW * PITCH, 16)",
        "WEIGHTS": f"up(G * BLOCKS * TAPS * {'1' if rows else 'BLOCK'}, 16)",
    }
    return [
        "constexpr auto least = [](int64_t a, int64_t b) { return a < b ? a : b; };",
        "constexpr auto most = [](int64_t a, int64_t b) { return a > b ? a : b; };",
        "constexpr auto up = [](int64_t a, int64_t b) { return (a + b - 1) / b * b; };",
        *(f"[[maybe_unused]] constexpr int64_t {name} = {text};" for name, text in found.items()),
    ]


_WEIGHTS = """\
// Weights as float32: [group][block of output channels][tap][channel of the block], zeros past the last channel.
constexpr int64_t wide = @WIDE;
float* const weights = (float*)workspace;
ws::parallel_ranges(THREADS, G * BLOCKS, 1 + (1 << 15) / (TAPS * wide), [&](int64_t begin, int64_t end, int) {
  for (int64_t b = begin; b < end; ++b) {
    float* to = weights + b * TAPS * wide;
    for (int64_t c = 0; c < IC; ++c)
      for (int64_t kd = 0; kd < KD; ++kd)
        for (int64_t kh = 0; kh < KH; ++kh)
          for (int64_t kw = 0; kw < KW; ++kw)
            for (int64_t o = 0; o < wide; ++o) {
              const int64_t channel = b / BLOCKS * OG + b % BLOCKS * wide + o;
              const bool real = b % BLOCKS * wide + o < OG;
              *to++ = real ? ws::load_one(@WEIGHT@TAP) : 0.0f;
            }
  }
});
"""

_TASKS = """\
constexpr int64_t work = most(1, OG * TAPS * ROWS * COLS);  // of a task
constexpr auto used = [](int64_t phase, int64_t size, int64_t dilation, int64_t stride) {
  for (int64_t k = 0; k < size; ++k)
    if (k * dilation % stride == phase) return true;
  return false;
};
const auto zero = [](float* to, int64_t count) { __builtin_memset(to, 0, (size_t)count * sizeof(float)); };
ws::parallel_ranges(THREADS, N * G * OD * BANDS * SEGMENTS, most(1, @PARALLEL / work), [&](int64_t begin, int64_t end, int part) {
  float* const packed = weights + WEIGHTS + part * SCRATCH;  // [channel][kd][row phase][column phase][row][column]
  float* const tile = packed + PACKED;
  [[maybe_unused]] float* const line = tile + TILE;
  for (int64_t task = begin; task < end; ++task) {
    const int64_t left = task % SEGMENTS * COLS, top = task / SEGMENTS % BANDS * ROWS;
    const int64_t od = task / (SEGMENTS * BANDS) % OD, g = task / (SEGMENTS * BANDS * OD) % G;
    const int64_t n = task / (SEGMENTS * BANDS * OD * G);
    const int64_t rows = least(ROWS, OH - top), cols = least(COLS, OW - left);
    const int64_t first_column = left * SW - PW;
    const int64_t from = most(0, -first_column);
    const int64_t to = most(from, least(IW - first_column, (cols - 1) * SW + (KW - 1) * DW + 1));
    for (int64_t c = 0; c < IC; ++c)
      for (int64_t kd = 0; kd < KD; ++kd)
        for (int64_t r = 0; r < (rows - 1) * SH + (KH - 1) * DH + 1; ++r) {
          if (!used(r % SH, KH, DH, SH)) continue;
          const int64_t d = od * SD + kd * DD - PD, h = top * SH + r - PH;
          const bool inside = d >= 0 && d < ID && h >= 0 && h < IH && to > from;
          float* const row = packed + (c * KD + kd) * PLANE + r % SH * SW * PHASE + r / SH * PITCH;
          float* const whole = SW == 1 ? row : line;
          if (inside) {
            const int64_t at[] = {@IN};
            zero(whole, from);
            prologue0(whole + from, at, to - from);
            zero(whole + to, SW * PITCH - to);
          } else {
            zero(whole, SW * PITCH);
          }
          for (int64_t q = 0; SW > 1 && q < SW; ++q)
            if (used(q, KW, DW, SW))
              for (int64_t i = 0; i < PITCH; ++i) row[q * PHASE + i] = line[i * SW + q];
        }
    @LOOPS
  }
  if (NT) ws::fence();
});
"""

_STRIPS = """\
const auto piece = [&](auto width, int64_t i) __attribute__((always_inline)) {
  constexpr int vectors = decltype(width)::vectors;
  ws::vf acc[BLOCK][vectors];
#pragma GCC unroll 16
  for (int o = 0; o < BLOCK; ++o)
#pragma GCC unroll 16
    for (int u = 0; u < vectors; ++u) acc[o][u] = ws::splat(@START);
  @SUMS
#pragma GCC unroll 16
  for (int o = 0; o < BLOCK; ++o)
#pragma GCC unroll 16
    for (int u = 0; u < vectors; ++u) ws::store(tile + o * RUN + i + u * VEC, acc[o][u]);
};
struct Wide { enum { vectors = UNROLL }; };
struct Narrow { enum { vectors = 1 }; };
int64_t i = 0;
for (; i + UNROLL * VEC <= @LENGTH; i += UNROLL * VEC) piece(Wide{}, i);
for (; i < @LENGTH; i += VEC) piece(Narrow{}, i);
"""

_FLAT = """\
const int64_t run = (rows - 1) * PITCH + cols;
for (int64_t b = 0; b < BLOCKS; ++b) {
  const int64_t first = g * OG + b * BLOCK, live = least(BLOCK, OG - b * BLOCK);
  float start[BLOCK] = {};
  for (int64_t channel = first; channel < first + live; ++channel) start[channel - first] = @BIAS;
  @STRIPS
  for (int64_t channel = first; channel < first + live; ++channel)
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at[] = {@OUT};
      epilogue(tile + (channel - first) * RUN + r * PITCH, at, cols);
    }
}
"""

_FLAT_SUMS = """\
const float* weight = weights + (g * BLOCKS + b) * TAPS * BLOCK;
for (int64_t c = 0; c < IC * KD; ++c)
  for (int64_t kh = 0; kh < KH; ++kh)
    for (int64_t kw = 0; kw < KW; ++kw, weight += BLOCK) {
      const float* const x = packed + c * PLANE + (kh * DH % SH * SW + kw * DW % SW) * PHASE
                             + kh * DH / SH * PITCH + kw * DW / SW + i;
      ws::vf v[vectors];
#pragma GCC unroll 16
      for (int u = 0; u < vectors; ++u) v[u] = ws::held(ws::load(x + u * VEC));
#pragma GCC unroll 16
      for (int o = 0; o < BLOCK; ++o) {
        const ws::vf one = ws::splat(weight[o]);
#pragma GCC unroll 16
        for (int u = 0; u < vectors; ++u) acc[o][u] += v[u] * one;
      }
    }
"""

_ROWS = """\
for (int64_t channel = g * OG; channel < (g + 1) * OG; ++channel) {
  const float start = @BIAS;
  for (int64_t base = 0; base < rows; base += BLOCK) {
    @STRIPS
    for (int64_t r = base; r < least(rows, base + BLOCK); ++r) {
      const int64_t at[] = {@OUT};
      epilogue(tile + (r - base) * RUN, at, cols);
    }
  }
}
"""

_ROWS_SUMS = """\
for (int64_t c = 0; c < IC * KD; ++c) {
  const float* const x = packed + c * PLANE + base * PITCH + i;
  const float* const weight = weights + (channel * IC * KD + c) * KH * KW;
#pragma GCC unroll 1  // a column of weights at a time fits the registers beside the sums
  for (int64_t kw = 0; kw < KW; ++kw) {
    const float* const column = x + kw * DW % SW * PHASE + kw * DW / SW;
#pragma GCC unroll 64
    for (int64_t y = 0; y < (BLOCK - 1) * SH + (KH - 1) * DH + 1; ++y) {
      ws::vf v[vectors];
#pragma GCC unroll 16
      for (int u = 0; u < vectors; ++u)
        v[u] = ws::held(ws::load(column + y % SH * SW * PHASE + y / SH * PITCH + u * VEC));
#pragma GCC unroll 16
      for (int o = 0; o < BLOCK; ++o) {
        const int64_t k = y - o * SH;
        if (k < 0 || k % DH != 0 || k / DH >= KH) continue;
        const ws::vf one = ws::splat(weight[k / DH * KW + kw]);
#pragma GCC unroll 16
        for (int u = 0; u < vectors; ++u) acc[o][u] += v[u] * one;
      }
    }
  }
}
"""
