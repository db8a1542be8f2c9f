"""Reads a unit's source for signs of cheating before it runs: state kept between calls, clocks, tests on
addresses.

Text in, objections out, one line each. The judge does not rely on this: it is what a reviewer would ask about
first.
"""

from __future__ import annotations

import re

from ...records import Unit

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_RULES = (
    (
        re.compile(
            r"\bstatic\s+(?!inline\b|constexpr\b|const\b|void\b|_?assert\b)[\w:<>]+[\s*&]+\w+\s*(=|;|\[)"
        ),
        "keeps state between calls",
    ),
    (re.compile(r"\bthread_local\b"), "keeps state between calls"),
    (re.compile(r"\b(clock_gettime|clock|\w*rdtsc\w*|gettimeofday|omp_get_wtime)\s*\("), "reads a clock"),
    (re.compile(r"\(\s*u?intptr_t\s*\)\s*(in|out)\d+\s*(==|!=|<|>)"), "decides by an address"),
    (re.compile(r"\bGOMP_\w+"), "calls the OpenMP runtime by hand"),
    (re.compile(r"\b(_mm_[gs]etcsr|_MM_SET_\w+|__builtin_ia32_\w*mxcsr|fesetround|fesetenv)\b"),
     "changes the floating-point mode"),
)  # fmt: skip
_ASSEMBLY = re.compile(
    r"\b(asm|__asm__)\b"
)  # in CUDA it is PTX, which a build reads against a list of instructions

# What honest kernels may do, and cheats do: a reader looks closer. None of it is an objection by itself.
_SUSPICIONS = (
    (re.compile(r"const_cast|\(\s*in\d+_t\s*\*\s*\)"), "casts the const of an input away"),
    (re.compile(r"\b(?:if|while)\s*\([^;{]*\bin\d+\s*\[[^\]]*\]\s*[=!]=[^;{]*\)\s*(?:\{\s*)?return\b"), "returns early because of a value"),
    (re.compile(r"u?intptr_t|reinterpret_cast<\s*(?:std::)?u?int"), "looks at an address as a number"),
    (re.compile(r"\bmemcmp\s*\("), "compares memory"),
    (re.compile(r"\bworkspace\b[^;\n]*==|\bworkspace\s*\)\s*\[[^\]]*\]\s*(?:[=!]=|[<>])"), "decides by what is in the workspace"),
    (re.compile(r"=\s*\{(?:\s*[-+]?\d[\w.+-]*\s*,){32,}"), "holds a table of many numbers"),
    (re.compile(r"\b(?:getenv|system|fork|exec\w*|dlopen|dlsym|pthread_\w+|mmap|open|fopen|syscall)\s*\("), "calls the system"),
    (re.compile(r"\b(?:in|out)\d+\s*\[\s*-|\b(?:in|out)\d+\s*-\s*\d"), "reads before a buffer"),
)  # fmt: skip


def list_suspicions(unit: Unit) -> list[str]:
    """Signs that make it worth asking a reviewer; empty: none, and the judge's own checks suffice."""
    text = _COMMENT.sub(" ", unit.source)
    return [why for pattern, why in _SUSPICIONS if pattern.search(text)]


def review(unit: Unit) -> list[str]:
    """Objections to a unit; empty: none."""
    text = _COMMENT.sub(" ", unit.source)
    objections = [why for pattern, why in _RULES if pattern.search(text)]
    if unit.language != "cuda" and _ASSEMBLY.search(text):
        objections.append("contains inline assembly")
    if not re.search(r"\bunit\s*\(", text):
        objections.append("defines no unit()")
    return list(dict.fromkeys(objections))
