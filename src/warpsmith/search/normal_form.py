"""The normal form of a C++ or CUDA source: its tokens without comments, names declared in it numbered as they first appear.

In: a source. Out: tokens joined by blanks. Two sources with one normal form compile to the same code. So a name keeps its spelling
whenever there is doubt that it is local: only names that stand where a declaration has them, and nowhere behind a dot, an arrow or a
double colon, are numbered; in a source that pastes tokens none are.
"""

from __future__ import annotations

import re
from itertools import pairwise

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<text>R"(?P<mark>[^()\s\\]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
    |(?P<number>\.?\d(?:[eEpP][+-]|[\w.'])*)
    |(?P<name>[^\W\d]\w*)
    |(?P<operator>\#\#|::|->|<<=|>>=|<=>|[-+*/%&|^!=<>]=|\+\+|--|&&|\|\||<<|\.\.\.)
    |(?P<line>\n)
    |(?P<one>\S)""",
    re.VERBOSE | re.DOTALL,
)
_END = "\\n"  # of a preprocessor line; other line ends mean nothing
_TYPES = frozenset({
    "auto", "bool", "char", "double", "float", "half", "int", "long", "short", "signed", "size_t", "unsigned", "void", "ws_bf16",
    "ws_f16", "__half", "__nv_bfloat16",
})  # fmt: skip
_TYPE = re.compile(r"\w+_t$|(?:u?int|float|double|u?char)[234]$")
_KEYWORDS = frozenset({
    "alignas", "asm", "break", "case", "class", "const", "constexpr", "continue", "default", "delete",
    "do", "else", "enum", "extern", "false", "for", "goto", "if", "inline", "namespace", "new",
    "operator", "private", "protected", "public", "return", "sizeof", "static", "struct", "switch",
    "template", "this", "throw", "true", "typedef", "typename", "union", "using", "virtual", "volatile",
    "while",
})  # fmt: skip
_KEPT = re.compile(r"(?:in|out)\d+|unit|workspace|stream|__\w+")  # what the ABI or the compiler names
_BETWEEN = frozenset(
    {"*", "&", "&&", "const", "__restrict__", "__restrict"}
)  # a type and the name it declares
_AFTER = frozenset("=;,)[{:")  # a declared name
_ACCESS = frozenset({".", "->", "::"})


def normalise(source: str) -> str:
    """Empty for a source of nothing but comments and blanks."""
    tokens = _tokens(source)
    local = _local_names(tokens)
    numbers: dict[str, str] = {}
    return " ".join(numbers.setdefault(t, f"${len(numbers)}") if t in local else t for t in tokens)


def _tokens(source: str) -> list[str]:
    tokens: list[str] = []
    directive = False
    for match in _TOKEN.finditer(source.replace("\\\n", " ")):
        kind, text = match.lastgroup, match.group()
        if kind == "line":
            tokens += [_END] if directive else []
            directive = False
        elif kind != "comment":
            directive = directive or text == "#"
            tokens.append(text)
    return tokens


def _local_names(tokens: list[str]) -> frozenset[str]:
    """Names that a declaration in the source introduces, and that can be nothing else."""
    if not tokens or "##" in tokens:
        return frozenset()
    members = {after for before, after in pairwise(tokens) if before in _ACCESS}
    declared: set[str] = set()
    typed = named = directive = False  # what came before: a known type, a name that may be one, a "#"
    for token, after in zip(tokens, [*tokens[1:], ""], strict=True):
        directive = token == "#" or (directive and token != _END)
        is_type = token in _TYPES or _TYPE.match(token) is not None
        plain = token.isidentifier() and not is_type and token not in _KEYWORDS and not _KEPT.fullmatch(token)
        if (
            plain
            and not directive
            and ((typed and after in (*_AFTER, "(", ">")) or (named and after in _AFTER))
        ):
            declared.add(token)
        typed = is_type or (typed and token in _BETWEEN)
        named = plain
    return frozenset(declared - members)
