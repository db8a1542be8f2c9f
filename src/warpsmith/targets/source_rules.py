"""Searches a unit's source for forbidden constructs before any compiler reads it.

Source text in, refusals out, each with its line and the rule's name: "include" (anything but the headers of
a short list), "embed" (files pulled into the binary), "asm" (inline assembly, which hides calls from the
symbol check; on CUDA: what is not plain PTX), "pasting" (names
made by the preprocessor), "line" (renumbered diagnostics), "character" (control characters, which a compiler takes for
blanks or skips). The check reads tokens, not text: comments, strings and spliced lines cannot hide or fake
a directive."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..records import Diagnostic
from . import inline_ptx

HEADERS = frozenset({
    "task.h", "warpsmith_simd.h", "math.h", "stdint.h", "stddef.h", "string.h", "float.h", "limits.h",
    "immintrin.h", "arm_neon.h", "arm_sve.h", "omp.h", "stdlib.h", "cmath", "cstdint", "cstddef", "cstring",
    "cfloat", "climits", "limits", "algorithm", "type_traits", "utility", "array", "numeric", "bit",
})  # fmt: skip
CUDA_HEADERS = frozenset({
    "task.h", "warpsmith_cuda.h", "warpsmith_cuda_math.h", "warpsmith_cuda_states.h", "warpsmith_cuda_mma.h",
    "warpsmith_cuda_wgmma.h", "warpsmith_cuda_warpgroup.h", "warpsmith_cuda_resident.h", "warpsmith_cuda_float8.h", "warpsmith_cuda_pairs.h",
    "warpsmith_cuda_meeting.h", "warpsmith_cuda_launch.h", "math.h", "stdint.h", "stddef.h", "string.h", "float.h", "limits.h", "cmath",
    "cstdint", "cstddef", "cstring", "cfloat", "climits", "limits", "algorithm", "type_traits", "utility", "array",
    "cuda_runtime.h", "cuda_bf16.h", "cuda_fp16.h", "cuda_fp8.h", "cuda_pipeline.h", "cuda_pipeline_primitives.h",
    "cooperative_groups.h", "cooperative_groups/reduce.h", "cooperative_groups/memcpy_async.h", "mma.h",
    "math_constants.h", "vector_types.h", "vector_functions.h",
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
_FORBIDDEN_CONSTRUCTS = re.compile(
    r"\b(?:__has_embed|__has_include"
    r"|__builtin_(?:apply|frame_address|return_address|extract_return_addr|thread_pointer|setjmp|longjmp)"
    r"|(?:__attribute__\s*\(\s*\(|gnu\s*::)\s*(?:__)?(?:constructor|destructor|ifunc))"
)

# Attributes whose text goes into the assembly as it is, directives and all; `#pragma omp section` is none of them.
_ASSEMBLED_NAMES = re.compile(
    r"\b(?:__section__|(?<!omp )section|__alias__|alias|__symver__|symver|__weakref__|weakref)\b"
)

# Names that nvcc's generated code has for itself, or that tell one call from another.
_CUDA_NAMES = re.compile(
    r"\b(?:__cuda\w*|__sti\w*|__device_stub\w*|__fat\w*|__nv_(?:cuda|save|fat|reg|init)\w*|__nvvm\w*|__managed__"
    r"|cuda|clock|clock64|__clock\w*|globaltimer|__globaltimer\w*|cudaStreamPerThread"
    r"|cudaLaunchAttributeAccessPolicyWindow|cudaAccessPolicyWindow|accessPolicyWindow)\b"
)
# Pasted or escaped names would get past every rule on names.
_PASTING = re.compile(r"##|%:%:|\\[uU]")


@dataclass(frozen=True)
class Rules:
    """The rules of one language's sources. Each construct: rule, pattern, why not."""

    headers: frozenset[str]
    constructs: tuple[tuple[str, re.Pattern[str], str], ...]
    ptx: bool = False  # inline assembly is read as PTX


_ANYWHERE = ("construct", _FORBIDDEN_CONSTRUCTS, "is not for units")
_NO_ASSEMBLED_NAMES = ("construct", _ASSEMBLED_NAMES, "puts text into the assembly: name it otherwise")
_NO_PASTING = ("pasting", _PASTING, "hides names: write a template")
CPP = Rules(
    HEADERS,
    (("asm", _ASM, "inline assembly hides what a unit calls"), _ANYWHERE, _NO_ASSEMBLED_NAMES, _NO_PASTING),
)
CUDA = Rules(
    CUDA_HEADERS, (_ANYWHERE, _NO_ASSEMBLED_NAMES, ("name", _CUDA_NAMES, "is not for units"), _NO_PASTING), ptx=True
)  # fmt: skip


def find_refusals(source: str, rules: Rules = CPP) -> tuple[Diagnostic, ...]:
    """Return refusals, none when the source may be compiled. Kind "source"; the message starts with the rule's name."""
    if len(source.encode("utf-8", "replace")) > MAX_BYTES:
        return (_refuse(0, "size", f"a source holds at most {MAX_BYTES >> 20} MiB"),)
    if (control_character := _CONTROL.search(source)) is not None:
        line = source.count("\n", 0, control_character.start()) + 1
        return (_refuse(line, "character", f"{control_character.group()!r} has no place in a source"),)
    text, starts = _splice(source.replace("\r\n", "\n"))
    violations: list[tuple[int, str, str]] = []  # line, rule, what
    if rules.ptx:
        plain = _TOKEN.sub(_uncomment, text)
        violations += [
            (_find_line(offset, plain, starts), "asm", message)
            for offset, message in inline_ptx.find_refusals(plain)
        ]
    text = _TOKEN.sub(_blank, text)
    for match in _DIRECTIVE.finditer(text):
        verdicts = _check_directive(match["name"] or "", match["rest"], rules)
        violations += [(_find_line(match.start(), text, starts), rule, message) for rule, message in verdicts]
    for rule, pattern, why in rules.constructs:
        for m in pattern.finditer(text):
            message = why if rule == "asm" else f"{m.group().split('(')[0]} {why}"
            violations.append((_find_line(m.start(), text, starts), rule, message))
    return tuple(_refuse(*violation) for violation in sorted(violations))


def _check_directive(name: str, operand: str, rules: Rules) -> list[tuple[str, str]]:
    if name in ("include", "import", "include_next"):
        match = _INCLUDED.match(operand)
        if name == "include" and match is not None and match["name"] in rules.headers:
            return []
        return [("include", f"#{name} {operand.strip()} is not one of the headers a unit may include")]
    if name == "embed":
        return [("embed", "a unit may not embed files")]
    if name == "line" or name.isdigit():
        return [("line", "#line would move diagnostics elsewhere")]
    if name == "define" and rules.ptx and _is_unbalanced(operand):
        return [("macro", "a macro with unbalanced parentheses could add to inline assembly")]
    return []


def _is_unbalanced(text: str) -> bool:
    """True when a parenthesis closes before it opens, or stays open."""
    depth = 0
    for bracket in re.findall(r"[()]", text):
        depth += 1 if bracket == "(" else -1
        if depth < 0:
            return True
    return depth != 0


def _splice(source: str) -> tuple[str, list[int]]:
    """Join lines that end with a backslash, as the compiler does; `starts[i]` is the source line of result
    line i."""
    result_lines: list[str] = []
    starts: list[int] = []
    continued = False
    for number, line in enumerate(source.split("\n"), 1):
        stripped = line.rstrip(" \t\v\f")
        continues = stripped.endswith("\\")
        text = stripped[:-1] if continues else line
        if continued:
            result_lines[-1] += text
        else:
            result_lines.append(text)
            starts.append(number)
        continued = continues
    return "\n".join(result_lines), starts


def _blank(match: re.Match[str]) -> str:
    """Replace a comment by blanks and empty a string; line breaks and the quotes of an include stay as they are."""
    if match["comment"] is not None:
        return " " + "\n" * match.group().count("\n")
    text = match.group()
    if match["number"] is not None:  # matched so that the quote in 1'000 opens no character
        return text
    before = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()]
    if re.match(r"[ \t]*(?:#|%:)[ \t]*(?:include|import|include_next)\b", _TOKEN.sub(" ", before)):
        return text
    return text[0] + "\n" * text.count("\n") + text[-1]


def _uncomment(match: re.Match[str]) -> str:
    """Replace a comment by blanks; strings stay."""
    return _blank(match) if match["comment"] is not None else match.group()


def _find_line(offset: int, text: str, starts: list[int]) -> int:
    return starts[min(text.count("\n", 0, offset), len(starts) - 1)]


def _refuse(line: int, rule: str, message: str) -> Diagnostic:
    return Diagnostic(line=line, kind="source", message=f"{rule}: {message}")
