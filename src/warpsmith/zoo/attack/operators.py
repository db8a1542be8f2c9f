"""The small operators that candidates are composed for.

In: files of `fixtures/attack/operators` (how an operator is built and worked out, in several ways) and of
`fixtures/attack/tasks` (its task). Out: `Operator`s. A call takes 50 to 300 µs on one core, so that verification is
fast and a gain can be measured.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .fragments import ATTACK_FOLDER

LIBRARY_COMMAND = ("g++", "-O3", "-march=native", "-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-shared", "-fPIC")  # fmt: skip


@dataclass(frozen=True)
class Operator:
    name: str
    common: str  # MAIN, build, blank and part
    works: dict[str, str]  # "torch", "formula", …, "kernel", "numpy" → the text of its function
    kernel: str  # C++ of its own kernel; empty when it has none

    @property
    def task_file(self) -> Path:
        return ATTACK_FOLDER / "tasks" / f"{self.name}.py"

    @property
    def unit_base(self) -> Path:
        return ATTACK_FOLDER / "units" / f"_{self.name}.cpp"

    @property
    def formulations(self) -> list[str]:
        """List the ways to work it out by torch alone."""
        return [name for name in self.works if name not in ("kernel", "numpy")]

    @property
    def parameters(self) -> list[str]:
        """List the parameters of its kernel, as C++ declares them."""
        match = re.search(r"run\(([^)]*)\)", self.kernel)
        return [p.strip() for p in match[1].split(",")] if match else []

    def work(self, name: str, called: str = "work") -> str:
        """Return the text of a function that does the work, under another name."""
        return self.works[name].replace(f"def work_{name}(", f"def {called}(", 1)


@cache
def load_operators() -> tuple[Operator, ...]:
    return tuple(_read(path) for path in sorted((ATTACK_FOLDER / "operators").glob("*.py")))


def _read(path: Path) -> Operator:
    text = path.read_text()
    common, works, kernel = [], {}, ""
    for node in ast.parse(text).body:
        source = ast.get_source_segment(text, node) or ""
        if isinstance(node, ast.FunctionDef) and node.name.startswith("work_"):
            works[node.name.removeprefix("work_")] = source
        elif isinstance(node, ast.Assign) and source.startswith("KERNEL"):
            kernel = ast.literal_eval(node.value)
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            common.append(source)
    return Operator(path.stem, "\n\n\n".join(common), works, kernel)
