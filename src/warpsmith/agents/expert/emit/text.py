"""Lines of C++ with indentation, and the few helper functions that emitted code calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

PRELUDE = {
    "read": """\
// n lanes of an operand: VEC in the body of a loop, fewer at its end.
// STRIDE 1: neighbours, 0: one value, else gathered.
template <int64_t STRIDE, class T> WS_FN ws::vf read(const T* p, int64_t j, int n) {
  if constexpr (STRIDE == 0) return ws::splat(ws::load_one(p));
  else if constexpr (STRIDE == 1) return n == VEC ? ws::load(p + j) : ws::load_n(p + j, n);
  else {
    ws::vf v{};
    for (int i = 0; i < n; ++i) v[i] = ws::load_one(p + (j + i) * STRIDE);
    return v;
  }
}
""",
    "read_bool": """\
template <int64_t STRIDE> WS_FN ws::vm read_bool(const bool* p, int64_t j, int n) {
  if constexpr (STRIDE == 0) return ws::splat_int(-(int)*p);
  else if constexpr (STRIDE == 1) return n == VEC ? ws::load_bool(p + j) : ws::load_bool_n(p + j, n);
  else {
    ws::vm m{};
    for (int i = 0; i < n; ++i) m[i] = -(int)p[(j + i) * STRIDE];
    return m;
  }
}
""",
    "read_int": """\
// Integers of any width, as int64.
template <int64_t STRIDE, class T> WS_FN ws::vl read_int(const T* p, int64_t j, int n) {
  if constexpr (STRIDE == 0) return ws::splat_long((int64_t)*p);
  else {
    if constexpr (STRIDE == 1 && sizeof(T) == 8)
      if (n == VEC) return *(const ws::vl_mem*)(p + j);
    ws::vl v{};
    for (int i = 0; i < n; ++i) v[i] = p[(j + i) * STRIDE];
    return v;
  }
}
""",
    "pick": """\
// One element for each of n lanes, at an index of its own.
template <int64_t STEP, int64_t STRIDE, class T>
WS_FN ws::vf pick(const T* p, ws::vl at, int64_t extent, int64_t j, int n) {
  ws::vf v{};
  for (int i = 0; i < n; ++i) {
    const bool inside = at[i] >= 0 && at[i] < extent;
    v[i] = inside ? ws::load_one(p + at[i] * STEP + (j + i) * STRIDE) : ws::nan;
  }
  return v;
}
""",
    "write": """\
template <int64_t STRIDE, bool STREAM = false, class T> WS_FN void write(T* p, int64_t j, ws::vf v, int n) {
  if constexpr (STRIDE != 1)
    for (int i = 0; i < n; ++i) ws::store_one(p + (j + i) * STRIDE, v[i]);
  else if (n != VEC) ws::store_n(p + j, v, n);
  else if constexpr (STREAM) ws::stream(p + j, v);
  else ws::store(p + j, v);
}
""",
    "write_bool": """\
template <int64_t STRIDE> WS_FN void write_bool(bool* p, int64_t j, ws::vm m, int n) {
  if (STRIDE == 1 && n == VEC) ws::store_bool(p + j, m);
  else for (int i = 0; i < n; ++i) p[(j + i) * STRIDE] = m[i] != 0;
}
""",
    "write_index": """\
template <int64_t STRIDE> WS_FN void write_index(int64_t* p, int64_t j, ws::vi v, int n) {
  if (STRIDE == 1 && n == VEC) ws::store(p + j, v);
  else for (int i = 0; i < n; ++i) p[(j + i) * STRIDE] = v[i];
}
template <int64_t STRIDE> WS_FN void write_index(int64_t* p, int64_t j, ws::vl v, int n) {
  if (STRIDE == 1 && n == VEC) *(ws::vl_mem*)(p + j) = v;
  else for (int i = 0; i < n; ++i) p[(j + i) * STRIDE] = v[i];
}
""",
    "keep": """\
// Past the end of the data (lanes n and up) an accumulator keeps what it had.
WS_FN ws::vf keep(int n, ws::vf now, ws::vf before) {
  return n == VEC ? now : ws::select(ws::iota() < n, now, before);
}
""",
    "vectors": """\
// f(j, n, u) over [begin, end): n lanes at j, accumulator u, so that UNROLL additions are in flight.
template <class F> WS_FN void vectors(int64_t begin, int64_t end, const F& f) {
  int64_t j = begin;
  for (; j + UNROLL * VEC <= end; j += UNROLL * VEC) {
#pragma GCC unroll 16
    for (int u = 0; u < UNROLL; ++u) f(j + u * VEC, VEC, u);
  }
  for (; j + VEC <= end; j += VEC) f(j, VEC, 0);
  if (j < end) f(j, (int)(end - j), 0);
}
""",
    "sweep": """\
// f(r, b) for rows [begin, end) and the vectors b of a block: SWEEP rows at once,
// so that an accumulator is loaded once for all of them.
template <bool FULL, class F> WS_FN void sweep(int64_t begin, int64_t end, int vectors, const F& f) {
  int64_t r = begin;
  for (; r + SWEEP <= end; r += SWEEP)
    for (int b = 0; b < (FULL ? BLOCK : vectors); ++b) {
#pragma GCC unroll 16
      for (int k = 0; k < SWEEP; ++k) f(r + k, b);
    }
  for (; r < end; ++r)
    for (int b = 0; b < (FULL ? BLOCK : vectors); ++b) f(r, b);
}
""",
    "better": """\
// Is a, found at i, to be taken instead of b, found at k? The greater; NaN above all; among equals the first.
WS_FN bool better(float a, int64_t i, float b, int64_t k) {
  if (a != a) return b == b || i < k;
  return b == b && (a > b || (a == b && i < k));
}
""",
    "flat": """\
// Stride of dimensions [first, last] walked as one; and whether they can be.
constexpr int64_t pace(const int64_t* shape, const int64_t* stride, int first, int last) {
  for (int d = last; d >= first; --d)
    if (shape[d] != 1) return stride[d];
  return 0;
}
constexpr bool flat(const int64_t* shape, const int64_t* stride, int first, int last) {
  int64_t next = -1;
  for (int d = last; d >= first; --d) {
    if (shape[d] == 1) continue;
    if (next >= 0 && stride[d] != next) return false;
    next = stride[d] * shape[d];
  }
  return true;
}
""",
}
_DECLARATION = re.compile(r"\s*(?:const )?[\w:]+\*?(?: const)? (\w+) = [^;,]*;$")
INLINE = "__attribute__((always_inline))"
# A divisor; loops over nothing do not get there.
SOME = "constexpr int64_t some(int64_t n) { return n > 0 ? n : 1; }\n"


class Writer:
    """Collects lines; `block` opens a brace and closes it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.helpers: set[str] = set()
        self._depth = 0

    def line(self, text: str = "") -> None:
        self.lines.append("  " * self._depth + text if text else "")

    def use(self, helper: str) -> None:
        self.helpers.add(helper)

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        self.line(head + " {")
        self._depth += 1
        yield
        self._depth -= 1
        self.line(tail)

    def prune(self, start: int) -> None:
        """Drop declarations since line `start` that nothing after them uses."""
        while True:
            tail = self.lines[start:]
            for i, line in enumerate(tail):
                declared = _DECLARATION.match(line)
                if declared and not any(re.search(rf"\b{declared[1]}\b", other) for other in tail[i + 1 :]):
                    del self.lines[start + i]
                    break
            else:
                return

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def prelude(self) -> str:
        return "\n".join(PRELUDE[name] for name in PRELUDE if name in self.helpers)


def nested(w: Writer, heads: list[str]) -> ExitStack:
    """All the loops of `heads`, one inside the other."""
    stack = ExitStack()
    for head in heads:
        stack.enter_context(w.block(head))
    return stack
