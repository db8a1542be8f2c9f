"""What the compiler made of a unit: how wide its vector instructions are, which functions it still calls, and for
CUDA the registers, spills, shared memory and instructions of each kernel.

A unit and its build in, an `Observation` out. On a CPU the library is disassembled (objdump); counts are of
instructions in the code, not of instructions executed. On CUDA resources are ptxas's, from the build, and the
instruction mix is cuobjdump's.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

from ..records import Build, Unit
from ..targets import sass
from .base import Observation, not_available, run_tool

NAME = "compiler"
TIMEOUT = 60.0
_INSTRUCTION = re.compile(r"^\s+[0-9a-f]+:\t(\S+)(?:\s+(.*))?$")
_CALL = re.compile(r"<(\w+)@plt>")
_MOVE = re.compile(r"^v?mov|^[ls]d[r1p]")
_PACKED = re.compile(r"^v?\w+p[sdh]$|^vp\w+")
_SCALAR = re.compile(r"^v?\w+s[sdh]$")
_NEON = re.compile(r"\bv\d+\.\d+[bhsd]\b")
_SVE = re.compile(r"\bz\d+\.[bhsd]\b")
_CUDA_FIELDS = ("registers", "stack_bytes", "spill_store_bytes", "spill_load_bytes", "shared_bytes")


def observe(unit: Unit, build: Build, cuobjdump: str | None = None) -> Observation:
    """`build` is a successful one of `unit`. `cuobjdump`: the disassembler of CUDA builds, where installed."""
    if unit.language == "cuda":
        return _cuda(unit, build, cuobjdump)
    objdump = shutil.which("objdump")
    if objdump is None:
        return not_available(NAME, "objdump is not installed (binutils)", unit.region.id)
    ended = run_tool([objdump, "-d", "--no-show-raw-insn", build.library], TIMEOUT)
    if ended.code != 0:
        return not_available(NAME, f"objdump ended with {ended.how}", unit.region.id)
    return _cpu(unit, build, ended.output)


def widths(disassembly: str) -> Counter[str]:
    """How many instructions compute on 512, 256 or 128 bits at once, on vectors of no fixed length, or on one float."""
    found: Counter[str] = Counter()
    for line in disassembly.splitlines():
        match = _INSTRUCTION.match(line)
        if match is not None:
            found[_width(match[1], match[2] or "")] += 1
    del found[""]
    return found


def _width(mnemonic: str, operands: str) -> str:
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


def _cpu(unit: Unit, build: Build, disassembly: str) -> Observation:
    found = widths(disassembly)
    called = sorted(set(_CALL.findall(disassembly)))
    vector = sum(count for name, count in found.items() if name != "scalar")
    metrics = {f"instructions, {name}": float(count) for name, count in sorted(found.items())}
    if found:
        metrics["vector share of floating-point instructions"] = vector / found.total()
    metrics["code bytes"] = float(Path(build.library).stat().st_size)
    notes = [f"calls {', '.join(called)}"] if called else []
    notes += [f"line {d.line}: {d.message}" for d in build.diagnostics]
    return Observation(observer=NAME, subject=unit.region.id, metrics=metrics, notes=tuple(notes))


def _cuda(unit: Unit, build: Build, cuobjdump: str | None) -> Observation:
    if not build.kernels:
        return not_available(NAME, "the build reports no kernels", unit.region.id)
    metrics = {
        f"{field.replace('_', ' ')}, {kernel.name}": float(getattr(kernel, field))
        for kernel in build.kernels
        for field in _CUDA_FIELDS
    }
    report = sass.inspect(Path(build.library), cuobjdump)
    notes = () if report.available else (f"instructions: not available: {report.reason}",)
    for kernel in report.kernels:
        metrics |= {f"{name}, {kernel.name}": value for name, value in _instructions(kernel).items()}
    return Observation(observer=NAME, subject=unit.region.id, metrics=metrics, notes=notes)


def _instructions(kernel: sass.KernelSass) -> dict[str, float]:
    found = {
        "instructions": float(kernel.instructions),
        "share of 16-byte global loads": kernel.wide_share,
        "local loads and stores": float(kernel.local_loads + kernel.local_stores),
    }
    return found | {f"{m.opcode} ({m.inputs} to {m.accumulator})": float(m.count) for m in kernel.matrix}
