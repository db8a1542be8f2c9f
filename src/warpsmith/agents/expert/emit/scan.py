"""The loops of a scan, over rows (along the last dimension) and over columns (along another).

In: what is scanned and in which form. Out: C++, general in all shapes. `prologue0` brings a run of the source into
a buffer, the scan works on the buffer in place, `epilogue` takes it from there. Prefixes of eight lanes take three
shifted additions (Hillis and Steele 1986); what is carried from one vector to the next waits for one addition only.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from .text import Writer

COMBINE = {
    "sum": ("0.0", "a + b"),
    "product": ("1.0", "a * b"),
    "maximum": ("-__builtin_inf()", "((a > b) | (a != a)) ? a : b"),
    "minimum": ("__builtin_inf()", "((a < b) | (a != a)) ? a : b"),
}

_CONSTANTS = """\
constexpr int RANK = {rank}, AXIS = {axis}, LAST = RANK - 1;
constexpr bool REVERSE = {reverse}, EXCLUSIVE = {exclusive}, LANES = {lanes};
constexpr int64_t N = out0_shape[AXIS], WIDTH = out0_shape[LAST];
constexpr int64_t COUNT = EXCLUSIVE ? N - 1 : N;  // elements that are read
constexpr double IDENTITY = {identity};
constexpr int64_t outer() {{  // independent scans; over columns: bundles of WIDTH of them
  int64_t n = 1;
  for (int d = 0; d < RANK; ++d) n *= d == AXIS || (LANES && d == LAST) ? 1 : out0_shape[d];
  return n;
}}
constexpr int64_t OUTER = outer();
// The first element of an independent scan.
static inline void place(int64_t number, int64_t* at) {{
  for (int d = LAST; d >= 0; --d) {{
    at[d] = 0;
    if (d == AXIS || (LANES && d == LAST)) continue;
    at[d] = number % out0_shape[d];
    number /= out0_shape[d];
  }}
}}

typedef double d8 __attribute__((vector_size(64)));
typedef int64_t l8 __attribute__((vector_size(64)));
typedef float f8 __attribute__((vector_size(32)));
typedef f8 f8_mem __attribute__((aligned(4), may_alias));
typedef d8 d8_mem __attribute__((aligned(8), may_alias));
WS_FN d8 load8(const float* p) {{ return __builtin_convertvector(*(const f8_mem*)p, d8); }}
WS_FN void store8(float* p, d8 v) {{ *(f8_mem*)p = __builtin_convertvector(v, f8); }}
WS_FN d8 splat8(double x) {{ return x - d8{{}}; }}
WS_FN d8 combine(d8 a, d8 b) {{ return {combine}; }}
// Lane i becomes `from[i]` of v and, from 8 on, the identity.
WS_FN d8 picked(d8 v, l8 from) {{
#ifdef WS_GCC
  return __builtin_shuffle(v, splat8(IDENTITY), from);
#else
  d8 r;
  for (int i = 0; i < 8; ++i) r[i] = from[i] < 8 ? v[from[i]] : IDENTITY;
  return r;
#endif
}}
template <int K> WS_FN d8 shifted(d8 v) {{
  const l8 lane = {{0, 1, 2, 3, 4, 5, 6, 7}};
  return picked(v, (REVERSE ? lane + K : lane - K) & 15);
}}
"""

_DOUBLE_ROWS = """\
// Eight elements in place; returns what is carried to the next eight.
WS_FN d8 scan8(float* p, d8 carry) {{
  d8 v = load8(p);
  v = combine(shifted<1>(v), v);
  v = combine(shifted<2>(v), v);
  v = combine(shifted<4>(v), v);
  store8(p, combine(carry, EXCLUSIVE ? shifted<1>(v) : v));
  return combine(carry, picked(v, l8{{}} + (REVERSE ? 0 : 7)));
}}
// `size` elements in place, of which `have` were read; `run` has room for whole eights.
static inline __attribute__((always_inline)) d8 scan_run(float* run, int64_t have, int64_t size, d8 carry) {{
  const int64_t eights = (size + 7) / 8;
  for (int64_t j = have < 0 ? 0 : have; j < eights * 8; ++j) run[j] = (float)IDENTITY;
  for (int64_t e = 0; e < eights; ++e) carry = scan8(run + (REVERSE ? eights - 1 - e : e) * 8, carry);
  return carry;
}}
"""

_FLOAT_ROWS = """\
WS_FN ws::vf join(ws::vf a, ws::vf b) {{ return {combine}; }}
WS_FN ws::vf chosen(ws::vf v, ws::vi from) {{
#ifdef WS_GCC
  return __builtin_shuffle(v, ws::splat((float)IDENTITY), from);
#else
  ws::vf r;
  for (int i = 0; i < VEC; ++i) r[i] = from[i] < VEC ? v[from[i]] : (float)IDENTITY;
  return r;
#endif
}}
template <int K> WS_FN ws::vf moved(ws::vf v) {{
  return chosen(v, (REVERSE ? ws::iota() + K : ws::iota() - K) & (2 * VEC - 1));
}}
// `size` elements in place, of which `have` were read; `run` has room for whole vectors. What eight vectors add up
// to is carried on in double.
static inline __attribute__((always_inline)) d8 scan_run(float* run, int64_t have, int64_t size, d8 carry) {{
  const int64_t vectors = (size + VEC - 1) / VEC;
  for (int64_t j = have < 0 ? 0 : have; j < vectors * VEC; ++j) run[j] = (float)IDENTITY;
  for (int64_t first = 0; first < vectors; first += 8) {{
    ws::vf near = ws::splat((float)carry[0]), sum = ws::splat((float)IDENTITY);
    for (int64_t k = first; k < first + 8 && k < vectors; ++k) {{
      float* const p = run + (REVERSE ? vectors - 1 - k : k) * VEC;
      ws::vf v = ws::load(p);
      v = join(moved<1>(v), v);
      v = join(moved<2>(v), v);
      if (VEC > 4) v = join(moved<4>(v), v);
      if (VEC > 8) v = join(moved<8>(v), v);
      const ws::vf all = chosen(v, ws::splat_int(REVERSE ? 0 : VEC - 1));
      ws::store(p, join(near, EXCLUSIVE ? moved<1>(v) : v));
      near = join(near, all);
      sum = join(sum, all);
    }}
    carry = combine(carry, splat8(sum[0]));
  }}
  return carry;
}}
"""

_TOTALS = """\
// All of `size` elements combined, eight totals side by side.
static inline __attribute__((always_inline)) d8 total_run(float* run, int64_t size, d8 total) {{
  const int64_t eights = (size + 7) / 8;
  for (int64_t j = size; j < eights * 8; ++j) run[j] = (float)IDENTITY;
  for (int64_t e = 0; e < eights; ++e) total = combine(total, load8(run + e * 8));
  return total;
}}
"""


def helpers(kind: str, rank: int, axis: int, reverse: bool, exclusive: bool, lanes: bool, short: bool) -> str:
    """Constants and functions that the bodies use; `kind` is "sum", "product", "maximum" or "minimum". `lanes`:
    over columns; `short`: a vector's own prefixes are float32.
    """
    identity, combine = COMBINE[kind]
    flags = {"reverse": reverse, "exclusive": exclusive, "lanes": lanes}
    text = _CONSTANTS.format(
        rank=rank, axis=axis, identity=identity, combine=combine,
        **{k: "true" if v else "false" for k, v in flags.items()},
    )  # fmt: skip
    rows = (_FLOAT_ROWS if short else _DOUBLE_ROWS).format(combine=combine)
    return text if lanes else text + rows + _TOTALS.format()


def rows_body(w: Writer) -> None:
    """A thread takes whole rows; each row in chunks that stay in the first-level cache."""
    w.line("constexpr int64_t grain = N >= GRAIN ? 1 : GRAIN / (N > 0 ? N : 1);")
    head = "ws::parallel_ranges(THREADS, OUTER, grain, [&](int64_t begin, int64_t end, int)"
    with w.block(head, "});"):
        w.line("alignas(64) float run[CHUNK];")
        with w.block("for (int64_t row = begin; row < end; ++row)"):
            w.line("int64_t at[RANK];")
            w.line("place(row, at);")
            w.line("d8 carry = splat8(IDENTITY);")
            with w.block("for (int64_t c = 0; c < N; c += CHUNK)"):
                w.line("const int64_t size = N - c < CHUNK ? N - c : CHUNK;")
                w.line("at[LAST] = REVERSE ? N - c - size : c;")
                _scan_chunk(w)
        w.line("if (NT) ws::fence();")


def _scan_chunk(w: Writer) -> None:
    w.line("const int64_t have = size < COUNT - at[LAST] ? size : COUNT - at[LAST];")
    w.line("prologue0(run, at, have);")
    w.line("carry = scan_run(run, have, size, carry);")
    w.line("epilogue(run, at, size);")


def split_body(w: Writer) -> None:
    """Row after row, each in stretches of THREADS parts: the parts' totals, what is carried into each, the scans."""
    with w.block("for (int64_t row = 0; row < OUTER; ++row)"):
        w.line("double before = IDENTITY;  // of all that precedes the stretch")
        with w.block("for (int64_t s = 0; s < N; s += THREADS * (int64_t)PART)"):
            w.line(
                "const int64_t length = N - s < THREADS * (int64_t)PART ? N - s : THREADS * (int64_t)PART;"
            )
            w.line("const int64_t parts = (length + PART - 1) / PART;")
            w.line("double total[THREADS];")
            w.line("// What each part adds up to.")
            _each_part(w, _total_part)
            w.line("double carried[THREADS];")
            with w.block("for (int64_t p = 0; p < parts; ++p)"):
                w.line("carried[p] = before;")
                w.line("before = combine(splat8(before), splat8(total[p]))[0];")
            w.line("// The parts' scans, while the stretch is still in the caches.")
            _each_part(w, _scan_part)


def _each_part(w: Writer, inner: Callable[[Writer], None]) -> None:
    head = "ws::parallel_ranges(THREADS, parts, 1, [&](int64_t first, int64_t end, int)"
    with w.block(head, "});"):
        w.line("alignas(64) float run[CHUNK];")
        w.line("int64_t at[RANK];")
        w.line("place(row, at);")
        with w.block("for (int64_t p = first; p < end; ++p)"):
            w.line("const int64_t low = p * PART, high = low + PART < length ? low + PART : length;")
            inner(w)
        if inner is _scan_part:
            w.line("if (NT) ws::fence();")


def _chunks(w: Writer) -> AbstractContextManager[None]:
    return w.block("for (int64_t c = low; c < high; c += CHUNK)")


def _total_part(w: Writer) -> None:
    w.line("d8 sum = splat8(IDENTITY);")
    with _chunks(w):
        w.line("const int64_t size = high - c < CHUNK ? high - c : CHUNK;")
        w.line("at[LAST] = REVERSE ? N - s - c - size : s + c;")
        w.line("const int64_t have = size < COUNT - at[LAST] ? size : COUNT - at[LAST];")
        w.line("prologue0(run, at, have);")
        w.line("sum = total_run(run, have, sum);")
    w.line("double all = sum[0];")
    w.line("for (int i = 1; i < 8; ++i) all = combine(splat8(all), splat8(sum[i]))[0];")
    w.line("total[p] = all;")


def _scan_part(w: Writer) -> None:
    w.line("d8 carry = splat8(carried[p]);")
    with _chunks(w):
        w.line("const int64_t size = high - c < CHUNK ? high - c : CHUNK;")
        w.line("at[LAST] = REVERSE ? N - s - c - size : s + c;")
        _scan_chunk(w)


def columns_body(w: Writer) -> None:
    """A task is a block of columns over the whole scanned dimension; as narrow as gives every thread one."""
    w.line("constexpr int64_t most = (THREADS + (OUTER > 0 ? OUTER : 1) - 1) / (OUTER > 0 ? OUTER : 1);")
    w.line("constexpr int64_t share = ((WIDTH + most - 1) / most + 15) / 16 * 16;")
    w.line("constexpr int64_t block = share < 16 ? 16 : share < BLOCK ? share : BLOCK;")
    w.line("constexpr int64_t blocks = (WIDTH + block - 1) / block, across = blocks > 0 ? blocks : 1;")
    w.line("constexpr int64_t work = N * (WIDTH < block ? WIDTH : block);")
    w.line("constexpr int64_t grain = work >= GRAIN ? 1 : GRAIN / (work > 0 ? work : 1);")
    head = "ws::parallel_ranges(THREADS, OUTER * blocks, grain, [&](int64_t begin, int64_t end, int)"
    with w.block(head, "});"):
        w.line("alignas(64) float run[block] = {};")
        w.line("alignas(64) double carry[block];")
        with w.block("for (int64_t task = begin; task < end; ++task)"):
            w.line("int64_t at[RANK];")
            w.line("place(task / across, at);")
            w.line("at[LAST] = task % across * block;")
            w.line("const int64_t width = WIDTH - at[LAST] < block ? WIDTH - at[LAST] : block;")
            w.line("for (int64_t j = 0; j < block; ++j) carry[j] = IDENTITY;")
            with w.block("for (int64_t i = 0; i < N; ++i)"):
                _scan_line(w)
        w.line("if (NT) ws::fence();")


def _scan_line(w: Writer) -> None:
    """One line of a block: the source's (for an exclusive scan the one before) joins what is carried."""
    w.line("at[AXIS] = (REVERSE ? N - 1 - i : i) - EXCLUSIVE;")
    with w.block("if (!EXCLUSIVE || i > 0)"):
        w.line("prologue0(run, at, width);")
        with w.block("for (int64_t j = 0; j < width; j += 8)"):
            w.line("*(d8_mem*)(carry + j) = combine(*(const d8_mem*)(carry + j), load8(run + j));")
    w.line("at[AXIS] += EXCLUSIVE;")
    w.line("for (int64_t j = 0; j < width; j += 8) store8(run + j, *(const d8_mem*)(carry + j));")
    w.line("epilogue(run, at, width);")
