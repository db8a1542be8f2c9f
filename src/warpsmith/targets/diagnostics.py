"""What a compiler, a linker or a check of ours says, as `Diagnostic` records that point into the unit's file.

Text of g++, clang++ or nvcc in, records out. Kinds: "error", "warning", "link" (the linker), "requires" (a stated
requirement that does not hold at these shapes), "timeout"; and the three of a refusal: "source" (a
forbidden construct), "flag", "symbol" (a forbidden import)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..records import Build, Diagnostic

REFUSALS = frozenset({"source", "flag", "symbol"})
MOST = 20  # diagnostics kept of one build
LONGEST = 300  # characters of one message

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
    """Diagnostics of a compiler's output, errors first. An error in a header takes the line of the unit
    that led there, else 0."""
    found: list[Diagnostic] = []
    led_by = 0  # the unit's line in the "included from" chain above a message
    for line in text.splitlines():
        located = _LOCATED.match(line)
        if located is not None:
            found.append(_located(located, unit_file, led_by))
            led_by = 0
        elif (edg := _CUDA_LOCATED.match(line)) is not None:
            found.append(_located(edg, unit_file, 0))
        elif (led := _CUDA_LED_BY.match(line)) is not None:
            _complete(found, led, unit_file)
        elif (tool := _CUDA_TOOL.match(line)) is not None:
            kind = "warning" if tool["kind"].lower() == "warning" else "error"
            found.append(_diagnostic(0, kind, tool["message"]))
        elif (loss := _CUDA_LOSS.match(line)) is not None:
            found.append(_diagnostic(0, "warning", loss["message"]))
        elif (frame := _FRAME.match(line)) is not None:
            led_by = _unit_line(frame, unit_file, found) or led_by
        elif (undefined := _UNDEFINED.search(line)) is not None:
            found.append(_diagnostic(0, "link", f"undefined: {undefined['name']}"))
        elif (bare := _NO_LOCATION.match(line)) is not None:
            found.append(_diagnostic(0, bare["kind"], bare["message"]))
        elif _LINKER.search(line) and "in function" not in line:
            found.append(_diagnostic(0, "link", line.split(": ", 1)[-1]))
    unique = dict.fromkeys(found)
    return tuple(sorted(unique, key=lambda d: d.kind == "warning"))[:MOST]


def refused(build: Build) -> bool:
    """Whether a build failed because the unit asks for something that no unit may do."""
    return not build.ok and any(d.kind in REFUSALS for d in build.diagnostics)


def unmet(build: Build) -> tuple[str, ...]:
    """The requirements of a unit that do not hold at the shapes of this build."""
    return tuple(d.message for d in build.diagnostics if d.kind == "requires")


def one_line(diagnostics: Iterable[Diagnostic]) -> str:
    """The first diagnostic as one line for people."""
    first = next(iter(diagnostics), None)
    if first is None:
        return "the compiler failed and said nothing"
    where = f"line {first.line}: " if first.line else ""
    return f"{first.kind}: {where}{first.message}"


def _located(match: re.Match[str], unit_file: str, led_by: int) -> Diagnostic:
    message, kind = match["message"], match["kind"].split()[-1]
    line = int(match["line"]) if _is(match["file"], unit_file) else led_by
    requires = _REQUIRES.search(message) if "static" in message else None
    if requires is not None and kind == "error":
        return _diagnostic(0, "requires", requires["text"].strip())
    return _diagnostic(line, kind, message)


def _unit_line(frame: re.Match[str], unit_file: str, found: list[Diagnostic]) -> int:
    """A note that points into the unit tells where an error in a header came from: it completes the message
    before it."""
    for file, line in (("file", "line"), ("user", "used")):
        if frame[file] is not None:
            return int(frame[line]) if _is(frame[file], unit_file) else 0
    if (
        _is(frame["note"], unit_file)
        and found
        and found[-1].line == 0
        and found[-1].kind in ("error", "warning")
    ):
        found[-1] = found[-1].model_copy(update={"line": int(frame["at"])})
    return 0


def _complete(found: list[Diagnostic], led: re.Match[str], unit_file: str) -> None:
    """Gives an error inside a header the line of the unit that led there."""
    if found and found[-1].line == 0 and _is(led["file"].strip('"'), unit_file):
        found[-1] = found[-1].model_copy(update={"line": int(led["line"])})


def _is(path: str, unit_file: str) -> bool:
    return path == unit_file or path.endswith("/" + unit_file)


def _diagnostic(line: int, kind: str, message: str) -> Diagnostic:
    return Diagnostic(line=line, kind=kind, message=message.strip()[:LONGEST])
