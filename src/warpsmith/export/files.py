"""The parts that every export is made of: a unit's files and build commands, a task's source at its constants, the
proof, Python literals.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..archive import Entry, RunRecord
from ..errors import UsageError
from ..records import Graph, GraphInput, Task, Unit
from ..targets.front_matter import fill_in_choices
from ..targets.native_target import HEADERS, NativeTarget
from ..wording import claim, hardware

LINK_FLAGS = ("-shared", "-nostdlib", "-Wl,--as-needed", "-lm", "-lc", "-lgcc")
CUDA_LINK_FLAGS = ("-shared", "-lcudart")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)".*$', re.MULTILINE)
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once.*$", re.MULTILINE)


@dataclass(frozen=True)
class UnitFiles:
    """A unit's source with the `task.h` it was built with, and the flags of its compilation."""

    source: str
    header: str
    flags: tuple[str, ...]
    language: str = "c++"

    @property
    def name(self) -> str:
        return "unit.cu" if self.language == "cuda" else "unit.cpp"

    @property
    def compile_command(self) -> str:
        """Run in the unit's folder; the headers lie one level up."""
        compiler = "nvcc" if self.language == "cuda" else "g++"
        return f"{compiler} {' '.join(self.flags)} -I . -I .. -c {self.name} -o unit.o"

    @property
    def link_command(self) -> str:
        flags = CUDA_LINK_FLAGS if self.language == "cuda" else LINK_FLAGS
        return f"g++ unit.o -o unit.so {' '.join(flags)}"

    def headers(self) -> dict[str, str]:
        """The text of each of our headers that the source includes, by name, those that these include among them."""
        headers: dict[str, str] = {}
        open_ = _INCLUDE.findall(self.source)
        while open_:
            name = open_.pop()
            if name not in headers and (HEADERS / name).is_file():
                headers[name] = (HEADERS / name).read_text(encoding="utf-8")
                open_ += _INCLUDE.findall(headers[name])
        return headers

    def one_file(self) -> str:
        """The source with the text of its headers in place of the first #include of each."""
        texts = {"task.h": self.header, **self.headers()}

        def inlined(found: re.Match[str]) -> str:
            text = texts.pop(found.group(1), "")
            return _INCLUDE.sub(inlined, _ONCE.sub("", text))

        return _INCLUDE.sub(inlined, self.source)


def unit_files(unit: Unit, graph: Graph, target: NativeTarget) -> UnitFiles:
    return UnitFiles(
        fill_in_choices(unit), target.unit_header(unit, graph), target.flags(unit), unit.language
    )


def task_text(task: Task) -> str:
    """The task's source at the constants that were optimized for."""
    text, overrides = task.source.text, task.main.overrides
    if not overrides:
        return text
    tree = ast.parse(text)
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if isinstance(node, ast.Assign) and isinstance(target, ast.Name) and target.id in overrides:
            node.value = ast.parse(repr(overrides[target.id]), mode="eval").body
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def state_rows(graph: Graph) -> list[tuple[str, Any]]:
    """List where each graph input comes from: ("input", name), (role, name), ("literal", (dtype, shape, data))."""
    return [_row(i) for i in graph.inputs]


def _row(item: GraphInput) -> tuple[str, Any]:
    if item.data:
        return "literal", (item.spec.dtype, list(item.spec.shape), item.data)
    return item.role, item.target


def format_nested(tree: Any, leaf: str = "leaves[{}]") -> str:
    """Python source that nests output leaves as the module does; `tree` as in `Graph.tree`.

    Raises UsageError for classes, which no file can know.
    """
    if isinstance(tree, int):
        return leaf.format(tree)
    if isinstance(tree, list):
        return f"[{', '.join(format_nested(t, leaf) for t in tree)}]"
    if "tuple" in tree:
        items = [format_nested(t, leaf) for t in tree["tuple"]]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if "const" in tree:
        return repr(tree["const"])
    if "dict" not in tree:
        raise UsageError(
            "the module returns an object of a class, or changes objects that it is given: export it with --as package"
        )
    return "{" + ", ".join(f"{k!r}: {format_nested(t, leaf)}" for k, t in tree["dict"].items()) + "}"


def positional(graph: Graph) -> bool:
    """Return whether forward takes its tensors one by one and nothing else."""
    count = sum(i.role == "input" for i in graph.inputs)
    return not graph.call or json.loads(graph.call) == {
        "tuple": [{"tuple": list(range(count))}, {"dict": {}}]
    }


def long_string(text: str) -> str:
    """Python source of a string, over several lines where that is safe."""
    awkward = "'''" in text or "\\" in text or "\r" in text or text.endswith("'")
    return repr(text) if awkward else f"'''{text}'''"


def docstring(text: str) -> str:
    """Text that can stand between three double quotes."""
    return text.replace("\\", "/").replace('"""', "'''").rstrip('"')


def proof(entry: Entry | None, run: RunRecord | None) -> str:
    """Describe what was measured, in a few lines; say so when nothing is known."""
    if entry is None or run is None or entry.result.timing is None or entry.result.verdict is None:
        return "No measurement is attached to this candidate."
    timing, verdict = entry.result.timing, entry.result.verdict
    e = run.environment
    lines = [claim(r, e, timing.limit_share) + "." for r in timing.ratios]
    how = "measured again in fresh processes" if timing.confirmed else "not measured a second time"
    lines.append(
        f"Median {timing.median_us:.1f} us [{timing.low_us:.1f}, {timing.high_us:.1f}], "
        f"{timing.cache} cache, {how}."
    )
    families = sorted({c.family for c in verdict.checks})
    lines.append(
        f"Verified by {len(verdict.checks)} checks ({', '.join(families)}); "
        f"labels: {', '.join(verdict.labels)}."
    )
    lines.append(
        f"Measured on {hardware(e)}; {e.os}; torch {e.torch}; {e.compiler}; "
        f"seed {run.seed}; run {run.run_id}."
    )
    if not entry.verified_here:
        lines.append("This result was imported and is unverified until it is judged on this machine.")
    return "\n".join(lines)


def expect_free(path: Path) -> None:
    """Raises UsageError for a file, or a folder with something in it."""
    if path.is_dir() and not any(path.iterdir()):
        return
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path} is there already: name another place, or write over it with --force")


def write(path: Path, text: str) -> None:
    """Write a text file, its folders made. Raises UsageError naming what cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
