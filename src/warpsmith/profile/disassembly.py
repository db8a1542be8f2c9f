"""`disassemble` reads a library's machine code: how wide its innermost loops compute, and which functions it calls.

A path in, a `Disassembly` out, or the reason why there is none. The code is a candidate's, so objdump reads
it confined, as compilation is. Counts are of instructions in the code, not of instructions executed.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..processes import sandbox
from .tool_run import run_tool

TIMEOUT_S = 60.0
MAX_LOOP_LINES = 80  # of assembly that is shown
MEMORY_BYTES = 2 << 30
_INSTRUCTION = re.compile(r"^\s+([0-9a-f]+):\t(\S+)(?:\s+(.*))?$")
_CALL = re.compile(r"<(\w+)@plt>")
_TARGET = re.compile(r"\b([0-9a-f]+) <")
_JUMP = re.compile(r"^j(?!mpq?$)\w+$|^b\.\w+$|^cbn?z$|^tbn?z$")  # conditional: what closes a loop
_MOVE = re.compile(r"^v?mov|^[ls]d[r1p]")
_PACKED = re.compile(r"^v?\w+p[sdh]$|^vp\w+")
_SCALAR = re.compile(r"^v?\w+s[sdh]$")
_NEON = re.compile(r"\bv\d+\.\d+[bhsd]\b")
_STACK = re.compile(r"\(%r[sb]p|\[(?:sp|x29)\b")
_SVE = re.compile(r"\bz\d+\.[bhsd]\b")

Instruction = tuple[int, str, str]  # address, mnemonic, operands


@dataclass(frozen=True)
class Disassembly:
    widths: Counter[str]  # see `count_widths`
    called: tuple[str, ...]  # functions of other libraries
    hot_loop: tuple[str, ...] = ()  # instructions of the innermost loop that computes the most
    stack_accesses: int = 0  # of instructions in innermost loops: registers that did not fit, most of them

    @property
    def vector_share(self) -> float | None:
        """The share of vector instructions among those that compute on floating-point registers; None if there are none."""
        total = self.widths.total()
        return (total - self.widths["scalar"]) / total if total else None

    def vector_bits(self, register_bits: int) -> int:
        """The width on which most of the work is done; 0 where none is done on vectors. `register_bits`: of
        vectors of no fixed length.
        """
        work = {_parse_bits(name, register_bits): n for name, n in self.widths.items() if name != "scalar"}
        return max(work, key=lambda bits: bits * work[bits], default=0)


def disassemble(library: str) -> Disassembly | str:
    objdump = shutil.which("objdump")
    if objdump is None:
        return "objdump is not installed (binutils)"
    argv = [objdump, "-d", "--no-show-raw-insn", library]
    confined = sandbox.command([], memory_bytes=MEMORY_BYTES, cpu_seconds=int(TIMEOUT_S), argv=argv)
    tool_run = run_tool(confined, TIMEOUT_S)
    if tool_run.code != 0:
        return f"objdump ended with {tool_run.how}"
    text = tool_run.output
    called = tuple(sorted(set(_CALL.findall(text))))
    return Disassembly(count_widths(text), called, find_hot_loop(text), count_stack_accesses(text))


def count_widths(text: str) -> Counter[str]:
    """Count the instructions that compute on 512, 256 or 128 bits at once, on vectors of no fixed length, or on one
    float: in the innermost loops of a disassembly, or in all of it where no loop computes.
    """
    code = _read_code(text)
    return _count_by_width(_select_innermost(code)) or _count_by_width(code)


def find_hot_loop(text: str) -> tuple[str, ...]:
    """Find the innermost loop with the most work on vectors, by their width, and return its instructions."""
    code = _read_code(text)
    loops = [[i for i in code if start <= i[0] <= end] for start, end in set(_find_loops(code))]
    best = max(loops, key=lambda loop: (_weigh(loop), -len(loop)), default=[])
    return tuple(f"{mnemonic} {operands}".rstrip() for _, mnemonic, operands in best[:MAX_LOOP_LINES])


def count_stack_accesses(text: str) -> int:
    """Count the instructions in innermost loops that read or write the stack."""
    return sum(bool(_STACK.search(operands)) for _, _, operands in _select_innermost(_read_code(text)))


def _weigh(loop: Sequence[Instruction]) -> float:
    """The share of a loop's instructions that compute, by width: the loop that holds another has a smaller one."""
    counts = _count_by_width(loop)
    return sum((_parse_bits(name, 128) if name != "scalar" else 32) * n for name, n in counts.items()) / len(
        loop
    )


def _read_code(text: str) -> list[Instruction]:
    return [
        (int(m[1], 16), m[2], m[3] or "") for m in map(_INSTRUCTION.match, text.splitlines()) if m is not None
    ]


def _count_by_width(code: Sequence[Instruction]) -> Counter[str]:
    counts = Counter(_find_width(mnemonic, operands) for _, mnemonic, operands in code)
    del counts[""]
    return counts


def _select_innermost(code: Sequence[Instruction]) -> list[Instruction]:
    """Select the instructions of loops that contain no other loop. A loop ends in a jump back to its start."""
    loops = sorted(set(_find_loops(code)), key=lambda loop: (-loop[0], loop[1]))
    innermost: list[tuple[int, int]] = []
    nearest_end = 1 << 64
    for start, end in loops:
        if nearest_end > end:
            innermost.append((start, end))
        nearest_end = min(nearest_end, end)
    innermost.sort()
    chosen, index = [], 0
    for instruction in code:  # in the order of addresses, as `inner` is
        while index < len(innermost) and innermost[index][1] < instruction[0]:
            index += 1
        if index < len(innermost) and innermost[index][0] <= instruction[0]:
            chosen.append(instruction)
    return chosen


def _find_loops(code: Sequence[Instruction]) -> Iterator[tuple[int, int]]:
    for address, mnemonic, operands in code:
        jumps = _JUMP.match(mnemonic) and ".cold" not in operands  # rare code lies before the rest
        target = _TARGET.search(operands) if jumps else None
        if target is not None and int(target[1], 16) <= address:
            yield int(target[1], 16), address


def _find_width(mnemonic: str, operands: str) -> str:
    if _MOVE.match(mnemonic):
        return ""
    for register, bits in (("%zmm", "512-bit"), ("%ymm", "256-bit")):
        if register in operands:
            return bits
    if _SVE.search(operands):
        return "scalable"
    if "%xmm" in operands:
        return "128-bit" if _PACKED.match(mnemonic) else "scalar" if _SCALAR.match(mnemonic) else ""
    return "128-bit" if _NEON.search(operands) else ""


def _parse_bits(name: str, register_bits: int) -> int:
    return int(name.removesuffix("-bit")) if name.endswith("-bit") else register_bits
