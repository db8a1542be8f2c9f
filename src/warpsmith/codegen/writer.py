"""Lines of C++ with indentation, and the few helper functions that emitted code calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import PurePath

from .templates import render

# Helpers, each in a file of its name, in the order in which units have them.
KERNELS = (
    "common/cpu/read.h", "common/cpu/read_bool.h", "common/cpu/read_int.h", "common/cpu/pick.h", "common/cpu/write.h",
    "common/cpu/write_bool.h", "common/cpu/write_index.h", "common/cpu/write_int.h", "common/cpu/keep.h", "common/cpu/vectors.h",
    "common/cpu/sweep.h", "common/cpu/better.h", "common/cpu/flat.h",
)  # fmt: skip
PRELUDE = {PurePath(kernel).stem: render(kernel) for kernel in KERNELS}
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

    def paste(self, text: str) -> None:
        for line in text.splitlines():
            self.line(line)

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
                if declared and not any(re.search(rf"\b{declared[1]}\b", later) for later in tail[i + 1 :]):
                    del self.lines[start + i]
                    break
            else:
                return

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def prelude(self) -> str:
        return "\n".join(PRELUDE[name] for name in PRELUDE if name in self.helpers)


def open_nested(w: Writer, heads: list[str]) -> ExitStack:
    """All the loops of `heads`, one inside the other."""
    stack = ExitStack()
    for head in heads:
        stack.enter_context(w.block(head))
    return stack
