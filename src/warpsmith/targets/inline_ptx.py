"""Checks the inline assembly of a CUDA unit against a list of PTX instructions.

Source text without comments in, refusals (position, message) out. The text of every `asm` is read as PTX:
it must be one literal, its instructions must be on a list, and it may declare registers only. So it cannot
add variables to the module, read a clock, or hide a call; and what the host compiler would take for its own
assembly is not on the list either.

Source: PTX ISA 9.0, https://docs.nvidia.com/cuda/parallel-thread-execution/"""

from __future__ import annotations

import re
from collections.abc import Iterator

INSTRUCTIONS = frozenset(["abs", "activemask", "add", "addc", "and", "applypriority", "atom", "bar", "barrier", "bfe", "bfi", "bfind", "bmsk", "bra", "brev", "brx", "clusterlaunchcontrol", "clz", "cnot", "copysign", "cos", "cp", "createpolicy", "cvt", "cvta", "discard", "div", "dp2a", "dp4a", "elect", "ex2", "exit", "fence", "fma", "fns", "getctarank", "griddepcontrol", "isspacep", "ld", "ldmatrix", "ldu", "lg2", "lop3", "mad", "mad24", "madc", "mapa", "match", "max", "mbarrier", "membar", "min", "mma", "mov", "movmatrix", "mul", "mul24", "multimem", "nanosleep", "neg", "not", "or", "popc", "prefetch", "prefetchu", "prmt", "rcp", "red", "redux", "rem", "rsqrt", "sad", "selp", "set", "setmaxnreg", "setp", "shf", "shfl", "shl", "shr", "sin", "slct", "sqrt", "st", "stmatrix", "sub", "subc", "szext", "tanh", "tcgen05", "tensormap", "testp", "trap", "vote", "wgmma", "wmma", "xor"])  # fmt: skip
# Registers that change from one launch to the next: a unit could tell calls apart by them.
CALL_DEPENDENT = re.compile(r"%(?:clock|globaltimer|pm\d|gridid|envreg|current_graph_exec)\w*")

_ASM = re.compile(r"\b(?:asm|__asm|__asm__)\b")
_OPENING = re.compile(r"\s*(?:(?:volatile|__volatile__|__volatile)\b\s*)?\(\s*")
_LITERAL = re.compile(r'"((?:\\.|[^"\\\n])*)"\s*|R"([^\s()\\]{0,16})\((.*?)\)\2"\s*', re.DOTALL)
_OPERAND = re.compile(r'\s+|[:,]|\[\w*\]|"(?:[=+&]*[hrlqfdnb]"\s*\(|memory"|cc")')
_BRACKET = re.compile(r"[()]")
_ESCAPES = {"\\n": "\n", "\\t": "\t", '\\"': '"', "\\\\": "\\"}
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
# What may stand before an instruction: braces of a scope, a label, a predicate.
_BEFORE = re.compile(r"(?:[\s{}]+|[A-Za-z_$][\w$%=]*\s*:(?!:)|@!?%*\w+\s)+")
_FIRST = re.compile(r"\.?[A-Za-z_]\w*|\S")


def find_refusals(text: str) -> Iterator[tuple[int, str]]:
    """Yield the position and reason of each refusal in `text`, a source whose comments are blanks and whose lines are joined."""
    for match in _ASM.finditer(text):
        literal = _read_literal(text, match.end())
        if literal is None:
            yield match.start(), "inline assembly is one literal text in parentheses, so that it can be read"
            continue
        message = explain_refusal(literal)
        if message:
            yield match.start(), message


def explain_refusal(ptx: str) -> str:
    """Explain why this text may not be assembled; empty when it may."""
    register = CALL_DEPENDENT.search(ptx)
    if register is not None:
        return f"inline PTX may not read {register.group()}"
    for statement in _COMMENT.sub(" ", ptx).split(";"):
        before = _BEFORE.match(statement)
        first = _FIRST.match(statement, before.end() if before is not None else 0)
        if first is None or first.group() == ".reg" or first.group() in INSTRUCTIONS:
            continue
        return f"inline PTX may not use '{first.group()}'"
    return ""


def _read_literal(text: str, offset: int) -> str | None:
    """Read the text of an asm statement, its adjoining literals as one; None when there is anything else."""
    opening = _OPENING.match(text, offset)
    if opening is None:
        return None
    offset, ptx = opening.end(), ""
    while (literal := _LITERAL.match(text, offset)) is not None:
        ptx += literal[1] if literal[1] is not None else literal[3].replace("\\", "\\\\")
        offset = literal.end()
    if offset == opening.end() or not _has_plain_operands(text, offset):
        return None
    if any(escape not in _ESCAPES for escape in _ESCAPE.findall(ptx)):
        return None
    return _ESCAPE.sub(lambda m: _ESCAPES[m.group()], ptx)


def _has_plain_operands(text: str, offset: int) -> bool:
    """True when operands in parentheses with plain constraints follow, up to the closing parenthesis. The
    constraint "C" would paste a string into the PTX.
    """
    while (part := _OPERAND.match(text, offset)) is not None:
        offset = part.end()
        if part.group().endswith("("):
            depth = 1
            while depth and (bracket := _BRACKET.search(text, offset)) is not None:
                depth += 1 if bracket.group() == "(" else -1
                offset = bracket.end()
            if depth:
                return False
    return text[offset : offset + 1] == ")"
