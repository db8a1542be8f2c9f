"""Reads a library's machine code through NVIDIA's disassembler: instruction mix, precision of the
matrix instructions, share of 16-byte loads, traffic to local memory.

A library's path in, a `SassReport` out; where `cuobjdump` is not installed or fails, a report that says
why there is none. Counts are of instructions as they stand in the code, not of those that run.

Source of the mnemonics: CUDA Binary Utilities, https://docs.nvidia.com/cuda/cuda-binary-utilities/"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ..records import Record
from .cuda_resources import plain_name

TIMEOUT_S = 60.0
_FUNCTION = re.compile(r"^\s*Function\s*:\s*(?P<symbol>\S+)")
_INSTRUCTION = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+\{?\s*(?:@!?U?P[T\d]+\s+)?(?P<opcode>[A-Z][A-Z0-9_]*(?:\.[A-Za-z0-9_]+)*)"
)
# Warp, warp-group and Blackwell's tensor-memory forms; integer, double and block-scaled ones.
_MATRIX = re.compile(r"(?:H|I|B|D|Q|O|F)MMA$|[HIQB]GMMA$|UTC[A-Z]*MMA\w*$")
_TYPE = re.compile(r"F64|F32|F16|BF16|TF32|E4M3|E5M2|E2M1|E3M2|E2M3|[SU]32|[SU]8|[SU]4|B1$")
_DEFAULT = {
    "H": ("F16", "F16"),
    "D": ("F64", "F64"),
    "I": ("S8", "S32"),
    "B": ("B1", "S32"),
    "Q": ("E4M3", "F32"),
}
_CLOCK = re.compile(r"\bSR_(?:CLOCK|GLOBALTIMER)\w*")


class MatrixInstruction(Record):
    opcode: str  # "HMMA.16816.F32.BF16"
    inputs: str  # "BF16"
    accumulator: str  # "F32"
    count: int


class KernelSass(Record):
    name: str
    symbol: str
    instructions: int
    mix: dict[str, int]  # opcode without its modifiers → count, most frequent first
    matrix: tuple[MatrixInstruction, ...] = ()
    global_loads: int = 0
    wide_global_loads: int = 0  # of 16 bytes a thread, or bulk copies
    shared_loads: int = 0
    wide_shared_loads: int = 0
    local_loads: int = 0  # registers that did not fit, or arrays indexed by a variable
    local_stores: int = 0
    clocks: int = 0  # reads of a clock

    @property
    def wide_share(self) -> float:
        """Share of the loads from global memory that take 16 bytes; 0 where there are none."""
        return self.wide_global_loads / self.global_loads if self.global_loads else 0.0


class SassReport(Record):
    kernels: tuple[KernelSass, ...] = ()
    reason: str = ""  # why there is none

    @property
    def available(self) -> bool:
        return not self.reason


def disassemble(library: Path, cuobjdump: str | None) -> SassReport:
    """Disassemble a library; `cuobjdump` is the disassembler's path, from `cuda_toolkit.toolkit().cuobjdump`."""
    if cuobjdump is None:
        return SassReport(reason="cuobjdump is not installed")
    try:
        completed = subprocess.run(
            [cuobjdump, "-sass", str(library)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return SassReport(reason=f"cuobjdump does not run: {error}")
    kernels = parse(completed.stdout)
    if completed.returncode != 0 or not kernels:
        words = completed.stderr.strip().splitlines() or ["it shows no kernel"]
        return SassReport(reason=f"cuobjdump fails: {words[-1]}")
    return SassReport(kernels=kernels)


def parse(text: str) -> tuple[KernelSass, ...]:
    """Parse the kernels, in the order of the disassembly."""
    return tuple(_count_kernel(symbol, lines) for symbol, lines in _split_functions(text))


def _split_functions(text: str) -> Iterator[tuple[str, list[str]]]:
    symbol, lines = "", list[str]()
    for line in text.splitlines():
        function = _FUNCTION.match(line)
        if function is None:
            lines.append(line)
            continue
        if symbol:
            yield symbol, lines
        symbol, lines = function["symbol"], []
    if symbol:
        yield symbol, lines


def _count_kernel(symbol: str, lines: list[str]) -> KernelSass:
    opcode_counts = Counter(m["opcode"] for line in lines if (m := _INSTRUCTION.match(line)) is not None)
    mix: Counter[str] = Counter()
    for opcode, count in opcode_counts.items():
        mix[opcode.split(".")[0]] += count
    return KernelSass(
        name=plain_name(symbol), symbol=symbol, instructions=sum(opcode_counts.values()), mix=dict(mix.most_common()),
        matrix=tuple(_describe_matrix_instruction(o, n) for o, n in opcode_counts.items() if _MATRIX.match(o.split(".")[0])),
        global_loads=mix["LDG"] + mix["LDGSTS"] + mix["UBLKCP"] + mix["UTMALDG"],
        wide_global_loads=_count_wide_loads(opcode_counts, ("LDG", "LDGSTS")) + mix["UBLKCP"] + mix["UTMALDG"],
        shared_loads=mix["LDS"] + mix["LDSM"], wide_shared_loads=_count_wide_loads(opcode_counts, ("LDS",)) + mix["LDSM"],
        local_loads=mix["LDL"], local_stores=mix["STL"],
        clocks=sum(_CLOCK.search(line) is not None for line in lines),
    )  # fmt: skip


def _count_wide_loads(opcode_counts: Counter[str], bases: tuple[str, ...]) -> int:
    parts = ((opcode.split("."), count) for opcode, count in opcode_counts.items())
    return sum(count for part, count in parts if part[0] in bases and {"128", "256"} & set(part))


def _describe_matrix_instruction(opcode: str, count: int) -> MatrixInstruction:
    """Describe a matrix instruction. The accumulator's type comes first, then those of the two inputs; a lone type is the accumulator's."""
    base, *modifiers = opcode.split(".")
    inputs, accumulator = _DEFAULT.get(base[3:4] if base.startswith("UTC") else base[0], ("", ""))
    types = [m for m in modifiers if _TYPE.fullmatch(m)]
    if base[0] in "IB" or base.startswith("UTCI"):  # these state their inputs only
        inputs = "·".join(dict.fromkeys(types)) or inputs
    elif types:
        accumulator, inputs = types[0], "·".join(dict.fromkeys(types[1:])) or inputs
    return MatrixInstruction(opcode=opcode, inputs=inputs, accumulator=accumulator, count=count)
