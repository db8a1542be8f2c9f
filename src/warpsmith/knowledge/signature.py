"""A failure's signature: the stage and its message without what differs from one instance to the next.

A raw failure ("stage: message", as the judge or a compiler said it) comes in; one line goes out in which names, numbers,
addresses, paths and line numbers are taken out, so that two instances of one error agree and the remedy of one is found
for the other. What tells errors apart stays: the compiler's wording and flags, quoted types and punctuation, the names of
forbidden imports, the verdict's rule, the input family and the likely cause.
"""

from __future__ import annotations

import re

LONGEST = 300  # characters of a signature
LITTLE = 8.0  # times the error budget: below, it is a matter of rounding
_ROUNDS = 50  # one or two are needed; a text made to defeat this ends all the same

_KEPT_WORDS = (
    "const volatile unsigned signed void bool char short int long float double auto size_t int8_t int16_t int32_t int64_t "
    "uint8_t uint16_t uint32_t uint64_t ws_bf16 ws_f16 __half __nv_bfloat16 static constexpr template typename return "
    "operator struct class namespace using if else for while do switch case default break continue inline extern asm "
    "this new delete sizeof register restrict __restrict__ __restrict main"
)
_TYPE = re.compile(rf"(?:\b(?:{'|'.join(_KEPT_WORDS.split())})\b|[\s*&])+")
_QUOTED = re.compile(r"[‘'`\"“]([^‘’'`\"“”\n]{0,400})[’'\"”](?!\w)")
_OVER = re.compile(r"\((\d+(?:\.\d+)?(?:e[+-]?\d{1,2})?) times the budget\)")
_PUNCTUATION = re.compile(r"[^\w\s]{1,3}")
_CALL = re.compile(r"[^()]*\(.*\)?.*")

_PASSES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\s+"), " "),
    (re.compile(r"^\s|\s$"), ""),
    # where it is: file:12:5, file(12), "line 12:", "at line 12"
    (re.compile(r"\bIn function [^:]*: ?"), ""),
    (re.compile(r"(?<![\w<])[\w.+~-]*(?:/[\w.+~-]+)+/?"), "<path>"),
    (re.compile(r"(?<![\w<])[\w+-]+\.(?:cpp|cu|cuh|hpp|cc|c|h|o|so|ptx|py)\b(?=[:(\s)]|$)"), "<path>"),
    (re.compile(r"<path>(?:[:(]\d+\)?)+:?"), "<path>"),
    (re.compile(r"^((?:[\w-]+: )?)<path>:? ?(?=(?:fatal )?(?:error|warning)\b)"), r"\1"),
    (re.compile(r"\b(?:at )?line \d+(?: of <path>)?:? ?"), ""),
    (re.compile(r"\bfatal error\b"), "error"),
    (re.compile(r" before '[^']*'(?: token)?"), ""),
    # hints that depend on what else is declared, lists of what was given
    (re.compile(r"[;,]? (?:did|you) (?:you )?mean .*$"), ""),
    (re.compile(r" argument types are: .*$"), ""),
    (re.compile(r" ?\{aka [^}]*\}| ?\(aka [^)]*\)"), ""),
    # names the message does not quote
    (re.compile(r"(keeps state between calls): .*? (must be)"), r"\1: '_' \2"),
    (re.compile(r"((?:^|link: )undefined|forbidden export|indirect function|data among code): (?!'_')\S.*$"), r"\1: '_'"),
    (re.compile(r"\((?:main|ragged|small|large|held[\w-]*|[\w-]*variant[\w-]*)\)(?=:|$)"), ""),
    # numbers: addresses and hashes, lists, shapes
    (re.compile(r"\b0[xX][0-9a-fA-F]+\b|(?<![.\w])(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{12,}\b"), "#"),
    (re.compile(r"(?<![\w.#])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w#])"), "#"),
    (re.compile(r"\[\]"), "[#]"),
    (re.compile(r"#(?:(?:, ?| ?[x×] ?)#)+"), "#"),
    (re.compile(r" +([:;,.)])"), r"\1"),
)  # fmt: skip


def signature(failure: str) -> str:
    """The signature of a raw failure; empty for an empty one. Applying it again changes nothing."""
    text = _find_first_error(failure)
    for _ in range(_ROUNDS):
        previous, text = text, _once(text)[:LONGEST].strip()
        if text == previous:
            break
    return text


def _find_first_error(failure: str) -> str:
    """The line that says what went wrong: compilers print context before it and notes behind it."""
    lines = [line for line in failure.splitlines() if line.strip()]
    named = (line for line in lines if re.search(r"\berror\b", line))
    return next(named, lines[0] if lines else "")[: 8 * LONGEST]


def _once(text: str) -> str:
    text = _OVER.sub(
        lambda match: f"({'a little' if float(match[1]) < LITTLE else 'far'} over the budget)", text
    )
    text = _QUOTED.sub(lambda match: f"'{_abstract_quote(match[1])}'", text)
    for pattern, replacement in _PASSES:
        text = pattern.sub(replacement, text)
    return text


def _abstract_quote(inside: str) -> str:
    """Types and punctuation tell errors apart; names do not, and of a call only that it is one."""
    plain = inside.strip()
    if not plain or plain in ("_", "_()", "#") or _PUNCTUATION.fullmatch(plain):
        return plain
    if _TYPE.fullmatch(plain):
        return re.sub(r"\s*([*&])\s*", r"\1", plain)
    if re.fullmatch(r"[-+]?\d[\w.]*", plain):
        return "#"
    return "_()" if _CALL.fullmatch(plain) and "(" in plain else "_"
