"""Parses messages of compilers and linkers into `Diagnostic` records that point into the unit's file.

Text of g++, clang++ or nvcc in, records out. Kinds: "error", "warning", "link" (the linker), "requires" (a stated
requirement that does not hold at these shapes), "timeout"; and the three of a refusal: "source" (a
forbidden construct), "flag", "symbol" (a forbidden import)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..records import Build, Diagnostic

REFUSALS = frozenset({"source", "flag", "symbol"})
MAX_DIAGNOSTICS = 20  # of one build
MAX_MESSAGE_CHARS = 300

_LOCATED = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:\d+:)? (?P<kind>fatal error|error|warning): (?P<message>.*)$"
)
# nvcc's front end, and its assembler, which knows the PTX only.
_CUDA_LOCATED = re.compile(
    r"^(?P<file>[^()\n]+)\((?P<line>\d+)\): (?P<kind>(?:catastrophic )?error|warning)(?: #[\w-]+)?: (?P<message>.*)$"
)
_CUDA_LED_BY = re.compile(r"^\s+.*\bat line (?P<line>\d+) of (?P<file>\S+)$")
_CUDA_TOOL = re.compile(
    r"^(?:(?:ptxas|nvlink|nvcc|fatbinary|cicc)\b[^;:]*;?\s*)(?P<kind>error|fatal|warning|Warning)\s*: (?P<message>.*)$"
)
# Products by warpgroup that wait for each other, registers that cannot be handed over: many times slower.
_CUDA_LOSS = re.compile(r"^ptxas info\s*: (?P<message>(?:\(C\d+\) )?Potential Performance Loss: .*)$")
_FRAME = re.compile(
    r"^(?:In file included from|\s+from) (?P<file>[^:\n]+):(?P<line>\d+)"
    r"|^(?P<user>[^:\n]+):(?P<used>\d+):(?:\d+:)?\s+required from"
    r"|^(?P<note>[^:\n]+):(?P<at>\d+):(?:\d+:)? note: "
)
_REQUIRES = re.compile(r"requires: (?P<text>[^\"\n]*)")
_UNDEFINED = re.compile(r"undefined (?:reference to|symbol:) [`'‘]?(?P<name>[^'’\n]+)")
_LINKER = re.compile(r"(?:^|/)(?:ld(?:\.\w+)?|collect2|clang\+*(?:-\d+)?)(?::| error:)")
_NO_LOCATION = re.compile(
    r"^(?:cc1plus|g\+\+|clang\+*|[\w./+-]*g\+\+[\w.-]*): (?:fatal )?(?P<kind>error|warning): (?P<message>.*)$"
)


def parse(text: str, unit_file: str = "unit.cpp") -> tuple[Diagnostic, ...]:
    """Parse a compiler's output, errors first. An error in a header takes the line of the unit
    that led there, else 0."""
    messages: list[Diagnostic] = []
    led_by = 0  # the unit's line in the "included from" chain above a message
    for line in text.splitlines():
        located = _LOCATED.match(line)
        if located is not None:
            messages.append(_to_diagnostic(located, unit_file, led_by))
            led_by = 0
        elif (cuda_located := _CUDA_LOCATED.match(line)) is not None:
            messages.append(_to_diagnostic(cuda_located, unit_file, 0))
        elif (led_by_match := _CUDA_LED_BY.match(line)) is not None:
            _add_line(messages, led_by_match, unit_file)
        elif (tool := _CUDA_TOOL.match(line)) is not None:
            kind = "warning" if tool["kind"].lower() == "warning" else "error"
            messages.append(_make_diagnostic(0, kind, tool["message"]))
        elif (loss := _CUDA_LOSS.match(line)) is not None:
            messages.append(_make_diagnostic(0, "warning", loss["message"]))
        elif (frame := _FRAME.match(line)) is not None:
            led_by = _find_unit_line(frame, unit_file, messages) or led_by
        elif (undefined := _UNDEFINED.search(line)) is not None:
            messages.append(_make_diagnostic(0, "link", f"undefined: {undefined['name']}"))
        elif (unlocated := _NO_LOCATION.match(line)) is not None:
            messages.append(_make_diagnostic(0, unlocated["kind"], unlocated["message"]))
        elif _LINKER.search(line) and "in function" not in line:
            messages.append(_make_diagnostic(0, "link", line.split(": ", 1)[-1]))
    unique = dict.fromkeys(messages)
    return tuple(sorted(unique, key=lambda d: d.kind == "warning"))[:MAX_DIAGNOSTICS]


def is_refused(build: Build) -> bool:
    """True when a build failed because the unit asks for something that no unit may do."""
    return not build.ok and any(d.kind in REFUSALS for d in build.diagnostics)


def unmet_requirements(build: Build) -> tuple[str, ...]:
    """Return the requirements of a unit that do not hold at the shapes of this build."""
    return tuple(d.message for d in build.diagnostics if d.kind == "requires")


def one_line(diagnostics: Iterable[Diagnostic]) -> str:
    """Write the first diagnostic as one line for people."""
    first = next(iter(diagnostics), None)
    if first is None:
        return "the compiler failed and said nothing"
    where = f"line {first.line}: " if first.line else ""
    return f"{first.kind}: {where}{first.message}"


def _to_diagnostic(match: re.Match[str], unit_file: str, led_by: int) -> Diagnostic:
    message, kind = match["message"], match["kind"].split()[-1]
    line = int(match["line"]) if _is_unit(match["file"], unit_file) else led_by
    requires = _REQUIRES.search(message) if "static" in message else None
    if requires is not None and kind == "error":
        return _make_diagnostic(0, "requires", requires["text"].strip())
    return _make_diagnostic(line, kind, message)


def _find_unit_line(frame: re.Match[str], unit_file: str, messages: list[Diagnostic]) -> int:
    """Find the unit's line in an "included from" line. A note that points into the unit completes the error in a header
    before it.
    """
    for file, line in (("file", "line"), ("user", "used")):
        if frame[file] is not None:
            return int(frame[line]) if _is_unit(frame[file], unit_file) else 0
    if (
        _is_unit(frame["note"], unit_file)
        and messages
        and messages[-1].line == 0
        and messages[-1].kind in ("error", "warning")
    ):
        messages[-1] = messages[-1].model_copy(update={"line": int(frame["at"])})
    return 0


def _add_line(messages: list[Diagnostic], led_by_match: re.Match[str], unit_file: str) -> None:
    """Give an error inside a header the line of the unit that led there."""
    if messages and messages[-1].line == 0 and _is_unit(led_by_match["file"].strip('"'), unit_file):
        messages[-1] = messages[-1].model_copy(update={"line": int(led_by_match["line"])})


def _is_unit(path: str, unit_file: str) -> bool:
    return path == unit_file or path.endswith("/" + unit_file)


def _make_diagnostic(line: int, kind: str, message: str) -> Diagnostic:
    return Diagnostic(line=line, kind=kind, message=message.strip()[:MAX_MESSAGE_CHARS])
