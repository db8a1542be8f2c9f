"""The clang-tidy observer reads a unit's source, where clang-tidy is installed.

A unit, its `task.h` and its flags in, an `Observation` out: the number of warnings, and each as a line. Only checks
that point at mistakes or cost are on; the unit is read in a folder of its own, confined as compilation is.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence

from ..processes.buffers import Scratch
from ..records import Unit
from ..targets.build_cache import run_confined
from ..targets.native_target import HEADERS
from .observation import Observation, not_available

NAME = "clang-tidy"
CHECKS = "-*,bugprone-*,clang-analyzer-*,performance-*,-bugprone-easily-swappable-parameters,-bugprone-reserved-identifier"
_WARNING = re.compile(
    r"^(?:\S*/)?unit\.(?:cpp|cu):(\d+):\d+: (?:warning|error): (.+?)(?: \[([\w.,-]+)\])?$", re.M
)
_UNKNOWN_TO_CLANG = ("-fno-trapping-math", "-fvect-cost-model", "-fno-semantic-interposition")


def observe(unit: Unit, header: str, flags: Sequence[str], scratch: Scratch) -> Observation:
    tool = shutil.which("clang-tidy")
    if tool is None:
        return not_available(NAME, "clang-tidy is not installed", unit.region.id)
    if unit.language != "c++":
        return not_available(NAME, "only C++ units are read", unit.region.id)
    folder = scratch.new("tidy")
    folder.mkdir()
    try:
        (folder / "unit.cpp").write_text(unit.source)
        (folder / "task.h").write_text(header)
        clang_flags = [f for f in flags if not f.startswith(_UNKNOWN_TO_CLANG)]
        command = [
            tool,
            "--quiet",
            f"--checks={CHECKS}",
            "unit.cpp",
            "--",
            *clang_flags,
            "-w",
            "-I",
            ".",
            "-I",
            str(HEADERS),
        ]
        tool_run = run_confined([command], folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if tool_run.timed_out:
        return not_available(NAME, f"stopped after {tool_run.seconds:.0f} s", unit.region.id)
    notes = tuple(f"line {line}: {text} [{check}]" for line, text, check in _WARNING.findall(tool_run.output))
    if tool_run.code != 0 and not notes:
        last = tool_run.output.strip().splitlines()[-1:] or [f"exit code {tool_run.code}"]
        return not_available(NAME, f"it fails: {last[0][:200]}", unit.region.id)
    return Observation(observer=NAME, subject=unit.region.id, metrics={"warnings": len(notes)}, notes=notes)
