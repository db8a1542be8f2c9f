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
    (re.compile(r"\b(asm|__asm__)\b"), "contains inline assembly"),
    (re.compile(r"\bGOMP_\w+"), "calls the OpenMP runtime by hand"),
    (re.compile(r"\b(_mm_[gs]etcsr|_MM_SET_\w+|__builtin_ia32_\w*mxcsr|fesetround|fesetenv)\b"),
     "changes the floating-point mode"),
)  # fmt: skip


def review(unit: Unit) -> list[str]:
    """Objections to a unit; empty: none."""
    text = _COMMENT.sub(" ", unit.source)
    objections = [why for pattern, why in _RULES if pattern.search(text)]
    if not re.search(r"\bunit\s*\(", text):
        objections.append("defines no unit()")
    return list(dict.fromkeys(objections))
