"""What a unit's source may not contain: looked for before any compiler sees it.

Source text in, refusals out, each with its line and the rule's name: "include" (anything but the headers of
a short list), "embed" (files pulled into the binary), "asm" (inline assembly, which hides calls from the
symbol check), "line" (renumbered diagnostics), "character" (control characters, which a compiler takes for
blanks or skips). The check reads tokens, not text: comments, strings and spliced lines cannot hide or fake
a directive."""

from __future__ import annotations

import re

from ..records import Diagnostic

HEADERS = frozenset({
    "task.h", "warpsmith_simd.h", "math.h", "stdint.h", "stddef.h", "string.h", "float.h", "limits.h",
    "immintrin.h", "arm_neon.h", "arm_sve.h", "omp.h", "stdlib.h", "cmath", "cstdint", "cstddef", "cstring",
    "cfloat", "climits", "limits", "algorithm", "type_traits", "utility", "array", "numeric", "bit",
})  # fmt: skip
MAX_BYTES = 1 << 20

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
      | (?P<raw>\b(?:u8|[uUL])?R"(?P<delimiter>[^\s()\\]{0,16})\(.*?\)(?P=delimiter)")
      | (?P<number>\b\d(?:[eEpP][+-]|'?[\w.])*)
      | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""",
    re.DOTALL | re.VERBOSE,
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufeff]|\r(?!\n)")
_DIRECTIVE = re.compile(r"^[ \t]*(?:\#|%:)[ \t]*(?P<name>\w+)?[ \t]*(?P<rest>[^\n]*)$", re.MULTILINE)
_INCLUDED = re.compile(r"[<\"](?P<name>[^<>\"]*)[>\"]\s*$")
_ASM = re.compile(r"\b(?:asm|__asm|__asm__)\b")
# Files at compile time, ways to a caller's memory, work at load.
_TOO_CLEVER = re.compile(
    r"\b(?:__has_embed|__has_include"
    r"|__builtin_(?:apply|frame_address|return_address|extract_return_addr|thread_pointer|setjmp|longjmp)"
    r"|(?:__attribute__\s*\(\s*\(|gnu\s*::)\s*(?:__)?(?:constructor|destructor|ifunc))"
)


def refusals(source: str) -> tuple[Diagnostic, ...]:
    """Empty when the source may be compiled. Kind "source"; the message starts with the rule's name."""
    if len(source.encode("utf-8", "replace")) > MAX_BYTES:
        return (_refuse(0, "size", f"a source holds at most {MAX_BYTES >> 20} MiB"),)
    if (odd := _CONTROL.search(source)) is not None:
        line = source.count("\n", 0, odd.start()) + 1
        return (_refuse(line, "character", f"{odd.group()!r} has no place in a source"),)
    text, starts = _splice(source.replace("\r\n", "\n"))
    text = _TOKEN.sub(_blank, text)
    found: list[tuple[int, str, str]] = []
    for match in _DIRECTIVE.finditer(text):
        verdicts = _directive(match["name"] or "", match["rest"])
        found += [(match.start(), rule, what) for rule, what in verdicts]
    found += [(m.start(), "asm", "inline assembly hides what a unit calls") for m in _ASM.finditer(text)]
    for m in _TOO_CLEVER.finditer(text):
        found.append((m.start(), "construct", f"{m.group().split('(')[0]} is not for units"))
    return tuple(_refuse(_line(at, text, starts), rule, what) for at, rule, what in sorted(found))


def _directive(name: str, rest: str) -> list[tuple[str, str]]:
    if name in ("include", "import", "include_next"):
        match = _INCLUDED.match(rest)
        if name == "include" and match is not None and match["name"] in HEADERS:
            return []
        return [("include", f"#{name} {rest.strip()} is not one of the headers a unit may include")]
    if name == "embed":
        return [("embed", "a unit may not embed files")]
    if name == "line" or name.isdigit():
        return [("line", "#line would move diagnostics elsewhere")]
    return []


def _splice(source: str) -> tuple[str, list[int]]:
    """Join lines that end with a backslash, as the compiler does; `starts[i]` is the source line of result
    line i."""
    joined: list[str] = []
    starts: list[int] = []
    continued = False
    for number, line in enumerate(source.split("\n"), 1):
        stripped = line.rstrip(" \t\v\f")
        more = stripped.endswith("\\")
        text = stripped[:-1] if more else line
        if continued:
            joined[-1] += text
        else:
            joined.append(text)
            starts.append(number)
        continued = more
    return "\n".join(joined), starts


def _blank(match: re.Match[str]) -> str:
    """Comments become blanks, strings lose what is inside; line breaks stay. Quotes of an include stay as
    they are."""
    if match["comment"] is not None:
        return " " + "\n" * match.group().count("\n")
    text = match.group()
    if match["number"] is not None:  # matched so that the quote in 1'000 opens no character
        return text
    before = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()]
    if re.match(r"[ \t]*(?:#|%:)[ \t]*(?:include|import|include_next)\b", _TOKEN.sub(" ", before)):
        return text
    return text[0] + "\n" * text.count("\n") + text[-1]


def _line(at: int, text: str, starts: list[int]) -> int:
    return starts[min(text.count("\n", 0, at), len(starts) - 1)]


def _refuse(line: int, rule: str, what: str) -> Diagnostic:
    return Diagnostic(line=line, kind="source", message=f"{rule}: {what}")
