"""The compiler observer reports the machine code of a unit: how wide its vector instructions are, which functions it
still calls, and for CUDA the registers, spills, shared memory and instructions of each kernel.

A unit and its build in, an `Observation` out. On a CPU the library is disassembled (`disassembly.py`);
counts are of instructions in its innermost loops, not of instructions executed. On CUDA resources are
ptxas's, from the build, and the instruction mix is cuobjdump's.
"""

from __future__ import annotations

from pathlib import Path

from ..records import Build, Unit
from ..targets import sass
from .disassembly import Disassembly, disassemble
from .observation import Observation, not_available

NAME = "compiler"
_CUDA_FIELDS = ("registers", "stack_bytes", "spill_store_bytes", "spill_load_bytes", "shared_bytes")


def observe(unit: Unit, build: Build, cuobjdump: str | None = None) -> Observation:
    """Observe a successful `build` of `unit`. `cuobjdump`: the disassembler of CUDA builds, where installed."""
    if unit.language == "cuda":
        return _describe_kernels(unit, build, cuobjdump)
    disassembly = disassemble(build.library)
    return (
        not_available(NAME, disassembly, unit.region.id)
        if isinstance(disassembly, str)
        else _describe_library(unit, build, disassembly)
    )


def _describe_library(unit: Unit, build: Build, disassembly: Disassembly) -> Observation:
    metrics = {f"instructions, {name}": float(count) for name, count in sorted(disassembly.widths.items())}
    if disassembly.vector_share is not None:
        metrics["vector share of floating-point instructions"] = disassembly.vector_share
    metrics["stack accesses in innermost loops"] = float(disassembly.stack_accesses)
    metrics["code bytes"] = float(Path(build.library).stat().st_size)
    notes = [f"calls {', '.join(disassembly.called)}"] if disassembly.called else []
    notes += [f"line {d.line}: {d.message}" for d in build.diagnostics]
    return Observation(observer=NAME, subject=unit.region.id, metrics=metrics, notes=tuple(notes))


def _describe_kernels(unit: Unit, build: Build, cuobjdump: str | None) -> Observation:
    if not build.kernels:
        return not_available(NAME, "the build reports no kernels", unit.region.id)
    metrics = {
        f"{field.replace('_', ' ')}, {kernel.name}": float(getattr(kernel, field))
        for kernel in build.kernels
        for field in _CUDA_FIELDS
    }
    report = sass.disassemble(Path(build.library), cuobjdump)
    notes = () if report.available else (f"instructions: not available: {report.reason}",)
    for kernel in report.kernels:
        metrics |= {f"{name}, {kernel.name}": value for name, value in _count_instructions(kernel).items()}
    return Observation(observer=NAME, subject=unit.region.id, metrics=metrics, notes=notes)


def _count_instructions(kernel: sass.KernelSass) -> dict[str, float]:
    values = {
        "instructions": float(kernel.instructions),
        "share of 16-byte global loads": kernel.wide_share,
        "local loads and stores": float(kernel.local_loads + kernel.local_stores),
    }
    return values | {f"{m.opcode} ({m.inputs} to {m.accumulator})": float(m.count) for m in kernel.matrix}
