"""How the code reads, as a table: lengths, names, docstrings, constants, C++ in strings. It reads text and runs none of it.

Usage: python lab/language_table.py BEFORE [AFTER]     each a git revision or a folder that holds src/; without AFTER: this checkout
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "src/warpsmith/"
DATA = {"suites", "fixtures", "__pycache__"}  # folders of tasks and cheats: data, not code
NATIVE = (".cuh", ".cu", ".cpp", ".h")
VAGUE = frozenset(
    re.findall(
        r"\w+",
        "one own most some given made found left here there again near far wanted known seen all each other others who what now old new both "
        "rest many once like beside apart along above asked told kept whole few least mine true ours theirs such more less twice way ways "
        "place places thing things taken holds held put got gone",
    )
)
PARTICIPLE = re.compile(
    r"\w*(ed|own|ept|ound|ost|old|aid|elt|eld|een|ade|ung|iven|aken|orn|oken)|of|here|instead|later|first"
)
VERBS = frozenset(
    re.findall(
        r"\w+",
        "need seed reseed feed embed speed round read load hold fold unfold bind find build expand extend send spend add shed bound host cost own screen",
    )
)
OPENINGS = {"of", "those", "what", "whether", "who", "how", "where", "as"}
UNIT = re.compile(
    r"(^|_)(seconds|s|us|ms|ns|bytes|kb|mb|gb|kib|mib|gib|per_s|per_second)(_|$)", re.IGNORECASE
)
UNIT_SAID = re.compile(r"#\s*(in )?(seconds|microseconds|milliseconds|bytes|[KMG]iB|us|ms)\b")
# Module-level numbers with one of these words in their name say what a GPU or processor can do.
HARDWARE = re.compile(
    r"^(GPU_|H100_|H200_)?(BANDWIDTH|UNITS|SMS|SM_COUNT|FLOPS|FLOP_RATE|RATE|LAUNCH|LAUNCH_US|START_US|L2|SMEM|CORES|PEAK|CLOCK|HZ|DRAM)(_|$)"
)
HARDWARE_FILES = {"hardware.py", "machine.py"}
# A line of a string looks like C++ if it ends a statement or a block, or begins with a word of C++.
_BEGINS = r"^\s*[rf\"']*(#include|#define|#pragma|template\b|constexpr\b|static\b|__global__)"
_ENDS = r"\s*(\\n)?[\"']{0,3}\s*$"
CPP = re.compile(rf"[;{{}}]{_ENDS}|{_BEGINS}")
CPP_IN_F_STRING = re.compile(rf"(;|{{{{|}}}}){_ENDS}|{_BEGINS}")


@dataclass
class Reading:
    """What was read of one file. `places` of names and docstrings are (line, name)."""

    lines: int = 0
    functions: list[int] = field(default_factory=list)  # lines of each
    stores: int = 0
    vague: list[tuple[int, str]] = field(default_factory=list)
    named: int = 0  # functions that should begin with a verb
    not_verbs: list[tuple[int, str]] = field(default_factory=list)
    documented: int = 0
    openings: list[tuple[int, str]] = field(default_factory=list)
    without_unit: list[tuple[int, str]] = field(default_factory=list)
    hardware: list[tuple[int, str]] = field(default_factory=list)
    cpp_lines: int = 0


def read(path: str, text: str) -> Reading:
    tree, lines = ast.parse(text), text.split("\n")
    reading = Reading(lines=text.count("\n"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            reading.stores += 1
            reading.vague += [(node.lineno, node.id)] if node.id in VAGUE else []
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _read_function(node, reading)
    for name, line in _numbers(tree):
        if UNIT_SAID.search(lines[line - 1]) and not UNIT.search(name):
            reading.without_unit.append((line, name))
        if HARDWARE.search(name) and Path(path).name not in HARDWARE_FILES:
            reading.hardware.append((line, name))
    reading.cpp_lines = len({n for node in _strings(tree) for n in _cpp_lines(node, lines)})
    return reading


def _read_function(node: ast.FunctionDef | ast.AsyncFunctionDef, reading: Reading) -> None:
    reading.functions.append((node.end_lineno or node.lineno) - node.lineno + 1)
    text = ast.get_docstring(node)
    reading.documented += bool(text)
    if text and text.split()[0].strip(".,:;").lower() in OPENINGS:
        reading.openings.append((node.lineno, node.name))
    if node.name.startswith("__") or any("property" in ast.unparse(d) for d in node.decorator_list):
        return
    reading.named += 1
    first = node.name.lstrip("_").split("_")[0]
    if PARTICIPLE.fullmatch(first) and first not in VERBS:
        reading.not_verbs.append((node.lineno, node.name))


def _numbers(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Module-level names that are assigned a number, with their lines."""
    for statement in tree.body:
        targets = (
            statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        )
        value = getattr(statement, "value", None)
        leaves = (
            [n for n in ast.walk(value) if isinstance(n, ast.Constant | ast.Name | ast.Call)] if value else []
        )
        if leaves and all(isinstance(n, ast.Constant) and isinstance(n.value, int | float) for n in leaves):
            for target in targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                yield from ((n.id, statement.lineno) for n in names if isinstance(n, ast.Name))


def _strings(tree: ast.Module) -> Iterator[ast.expr]:
    """Strings that are values: docstrings stand alone as statements, and parts of f-strings are no strings of their own."""
    alone = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    alone |= {id(part) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for part in n.values}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if (
            isinstance(node, ast.expr)
            and (is_text or isinstance(node, ast.JoinedStr))
            and id(node) not in alone
        ):
            yield node


def _cpp_lines(node: ast.expr, lines: list[str]) -> list[int]:
    """All lines of a string of several lines of which a third looks like C++; those of a single line that do."""
    first, last = node.lineno, node.end_lineno or node.lineno
    parts = {n: lines[n - 1] for n in range(first, last + 1) if lines[n - 1].strip()}
    if last in parts:
        parts[last] = parts[last].encode()[: node.end_col_offset].decode(errors="ignore")
    looks_like = CPP_IN_F_STRING if isinstance(node, ast.JoinedStr) else CPP
    alike = [n for n, part in parts.items() if looks_like.search(part)]
    return list(parts) if len(parts) > 1 and 3 * len(alike) >= len(parts) else alike


def files_of(source: str) -> dict[str, str]:
    """Texts by path, of a folder or a git revision."""
    folder = Path(source)
    if folder.is_dir():
        paths = [p for p in sorted((folder / PACKAGE).rglob("*")) if p.suffix in (".py", *NATIVE)]
        return {str(p.relative_to(folder)): p.read_text() for p in paths if not DATA & set(p.parts)}
    packed = subprocess.run(
        ["git", "archive", source, PACKAGE], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        members = [m for m in archive if m.isfile() and Path(m.name).suffix in (".py", *NATIVE)]
        chosen = [m for m in members if not DATA & set(Path(m.name).parts)]
        return {m.name: file.read().decode() for m in chosen if (file := archive.extractfile(m)) is not None}


def folder_of(path: str) -> str:
    """The folder of the package that a file is in; "." for files beside them."""
    inner, slash, _ = path.removeprefix(PACKAGE).partition("/")
    return inner if slash else "."


def share(count: int, total: int) -> str:
    return f"{100 * count / max(total, 1):.1f}% of {total}"


def spread(values: list[int]) -> str:
    ordered = sorted(values) or [0]
    return f"{median(ordered):.0f} / {ordered[int(0.9 * (len(ordered) - 1))]} / {ordered[-1]}"


def rows(files: Mapping[str, str]) -> dict[str, str]:
    python = {p: read(p, text) for p, text in files.items() if p.endswith(".py")}
    readings = list(python.values())
    basenames = Counter(Path(p).name for p in python if not p.endswith("__init__.py"))

    def total(count: Callable[[Reading], int]) -> int:
        return sum(map(count, readings))

    table = {
        "Python files": str(len(python)),
        "lines of Python": str(total(lambda r: r.lines)),
        "lines a file, median / p90 / max": spread([r.lines for r in readings]),
        "lines a function, median / p90 / max": spread([n for r in readings for n in r.functions]),
        "vague local names": share(total(lambda r: len(r.vague)), total(lambda r: r.stores)),
        "functions not named by a verb": share(total(lambda r: len(r.not_verbs)), total(lambda r: r.named)),
        "docstrings that begin with Of, What, …": share(
            total(lambda r: len(r.openings)), total(lambda r: r.documented)
        ),
        "modules that share a basename": str(sum(n for n in basenames.values() if n > 1)),
        "constants without their unit": str(total(lambda r: len(r.without_unit))),
        "hardware constants outside the record": str(total(lambda r: len(r.hardware))),
        "lines of C++ in Python strings": str(total(lambda r: r.cpp_lines)),
        "lines of C++ in files": str(sum(t.count("\n") for p, t in files.items() if p.endswith(NATIVE))),
    }
    by_folder: Counter[str] = Counter()
    for path, reading in python.items():
        by_folder[folder_of(path)] += reading.lines
    return table | {f"lines of Python in {name}": str(count) for name, count in sorted(by_folder.items())}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("before", help="a git revision or a folder that holds src/")
    parser.add_argument("after", nargs="?", default=str(ROOT))
    options = parser.parse_args()
    before, after = rows(files_of(options.before)), rows(files_of(options.after))
    print(
        f"| | {options.before} | {'this checkout' if options.after == str(ROOT) else options.after} |\n|---|---|---|"
    )
    for name in dict.fromkeys([*before, *after]):
        print(f"| {name} | {before.get(name, '')} | {after.get(name, '')} |")


if __name__ == "__main__":
    main()
