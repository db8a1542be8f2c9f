"""Sources as lines of HTML. Pygments' lexers read them; its own writer puts a class on every comma, which makes eight times the text."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from functools import cache
from itertools import groupby
from operator import itemgetter

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import CppLexer, CudaLexer, PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, _TokenType

from ..records import Candidate
from .safety import clip, show_controls

LEXERS: dict[str, type[Lexer]] = {"c++": CppLexer, "cuda": CudaLexer, "python": PythonLexer}
CLASSES: tuple[tuple[_TokenType, str], ...] = (  # the first that holds a token names its class
    (Comment.Preproc, "p"), (Comment.PreprocFile, "s"), (Comment, "c"), (Keyword.Type, "t"), (Keyword, "k"), (Operator.Word, "k"),
    (String, "s"), (Number, "n"), (Name.Function, "f"), (Name.Class, "t"),
)  # fmt: skip
MAX_LEXED = 200_000  # characters; what follows is cut off on pages, not in downloads
MAX_LINE = 2_000  # characters


def highlight_source(text: str, language: str) -> list[Markup]:
    """Return the lines of a source. What cannot be seen is written by its number."""
    shown = "\n".join(_split(text))
    lexer = LEXERS.get(language)
    if lexer is None:
        return [escape(line) for line in shown.split("\n")]
    lines: list[list[tuple[str, str]]] = [[]]  # (class, text)
    for token, piece in lexer(stripnl=False, ensurenl=False).get_tokens(shown):
        name = _find_class(token)
        head, *tail = piece.split("\n")
        lines[-1].append((name, head))
        lines += [[(name, part)] for part in tail]
    return [_join_pieces(line) for line in lines]


@cache
def _find_class(token: _TokenType) -> str:
    return next((name for kind, name in CLASSES if token in kind), "")


def _join_pieces(pieces: list[tuple[str, str]]) -> Markup:
    """Join the pieces of a line, neighbours of one class in one element."""
    parts = []
    for name, group in groupby(pieces, key=itemgetter(0)):
        text = escape("".join(part for _, part in group))
        parts.append(f"<i class={name}>{text}</i>" if name and text.strip() else text)
    return Markup("".join(parts))


def take_lines(lines: Sequence[Markup], size_bytes: int) -> tuple[Markup, int]:
    """Join the first lines that fit into so many bytes; return them, and how many lines are left out."""
    used = 0
    for number, line in enumerate(lines):
        used += len(line.encode()) + 1
        if used > size_bytes:
            return Markup("\n").join(lines[:number]), len(lines) - number
    return Markup("\n").join(lines), 0


def highlight_head(text: str, language: str, size_bytes: int) -> tuple[Markup, int]:
    """Return the first lines that fit into so many bytes of HTML, and how many lines are left out. No more is read than may fit."""
    head = text if len(text) <= size_bytes else text[:size_bytes].rpartition("\n")[0]
    shown, missing = take_lines(highlight_source(head, language) if head else [], size_bytes)
    return shown, missing + text.count("\n", len(head))


def mark_lines(lines: Sequence[Markup], numbers: Collection[int]) -> list[Markup]:
    """Mark some lines, counted from 1."""
    mark = Markup("<mark>{}</mark>")
    return [mark.format(line) if number in numbers else line for number, line in enumerate(lines, 1)]


def compare_sources(before: str, after: str) -> list[Markup]:
    """Return the unified difference of two sources, line by line."""
    return mark_differences(list_differences(before, after))


def list_differences(before: str, after: str) -> list[str]:
    """List the lines of the unified difference of two sources, as text."""
    if before == after:
        return []
    return list(difflib.unified_diff(_split(before), _split(after), lineterm="", n=2))[2:]


def mark_differences(lines: Sequence[str]) -> list[Markup]:
    """Return the lines of a difference as HTML."""
    return [_mark(line) for line in lines]


def join_sources(candidate: Candidate) -> str:
    """Return the sources of a candidate as one text, each below its technique and values."""
    return "\n".join(
        f"// {unit.technique or unit.family} {' '.join(f'{k}={v}' for k, v in unit.values.items())}\n{unit.text}"
        for unit in candidate.units
    )


def _split(text: str) -> list[str]:
    return [clip(line, MAX_LINE) for line in show_controls(text[:MAX_LEXED]).split("\n")]


def _mark(line: str) -> Markup:
    kind = {"+": "add", "-": "del", "@": "at"}.get(line[:1], "")
    return Markup("<i class={}>{}</i>").format(kind, line) if kind else escape(line)
