"""The whole file of a CUDA unit: front matter, tunables' defaults, workspace, includes, constants, kernels, launches.

In: what an emitter wrote (`CudaBody`), the unit's front matter and operands. Out: CUDA C++ that includes task.h and
defines `unit`, which launches the kernels in order on its stream.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from ...targets.front_matter import FrontMatter, render
from ...targets.tensor_maps import TensorMap
from ..cpp_source import defaults_of, indent_lines
from ..program import Program
from ..writer import PRELUDE, Writer

_KERNEL = re.compile(r"\b__global__\b")
WAITS = "\n  ws::wait_for_earlier_launches();\n  ws::let_next_launch_begin();"


@dataclass(frozen=True)
class Launch:
    """One kernel: how many blocks, how many threads each, and the dynamic shared memory in bytes, as C++."""

    kernel: str
    blocks: str
    threads: str
    shared: str = "0"
    extra: str = ""  # further arguments, after the operands
    struct: bool = False  # the operands as one argument, a struct Operands
    setup: str = ""  # statements before it, a line each
    together: bool = False  # all blocks run at once, see warpsmith_cuda_resident.h


@dataclass(frozen=True)
class CudaBody:
    top: Writer  # constants
    w: Writer  # kernels
    launches: tuple[Launch, ...]
    workspace: str = ""  # bytes, in terms of task.h and tunables; "": none
    loop: str = ""  # the head of a C++ loop around the launches
    members: tuple[str, ...] = ()  # of struct Operands, where they are not the unit's operands as they come
    maps: tuple[TensorMap, ...] = ()
    requires: tuple[str, ...] = ()  # of shapes


def parameters(names: Sequence[str]) -> list[str]:
    """List a kernel's parameters: every operand of the unit, none of which overlaps another."""
    const = ("const " if n.startswith("in") else "" for n in names)
    return [f"{c}{n}_t* __restrict__ {n}" for c, n in zip(const, names, strict=True)]


def kernel_head(
    name: str, program: Program, threads: str, extra: Sequence[str] = (), attribute: str = ""
) -> str:
    listed = ", ".join([*parameters([o.name for o in program.operands]), *extra])
    return f"__global__ void {attribute}__launch_bounds__({threads}) {name}({listed})"


def cuda_unit_file(body: CudaBody, matter: FrontMatter, why: str, operands: Sequence[str]) -> str:
    """`operands`: in0, in1 …, out0 …"""
    listed = "".join(f"{'const ' if o.startswith('in') else ''}{o}_t* {o}, " for o in operands)
    helpers = "".join(PRELUDE[h] for h in sorted({*body.top.helpers, *body.w.helpers}))
    unit = Writer()
    unit.line("[[maybe_unused]] const cudaStream_t on = (cudaStream_t)stream;")
    with unit.block(body.loop) if body.loop else nullcontext():
        if body.members:
            unit.line(f"const Operands o{{{', '.join(body.members)}}};")
        struct = "o" if body.members else f"Operands{{{', '.join(operands)}}}"
        for launch in body.launches:
            _launch(unit, launch, [struct] if launch.struct else operands)
    parts = [
        render(matter).rstrip("\n"), f"// {why}", defaults_of(matter.tunables),
        f"#define WORKSPACE_BYTES ({body.workspace})" if body.workspace else "",
        '#include "task.h"', '#include "warpsmith_cuda_launch.h"', '#include "warpsmith_cuda_states.h"', "", helpers, wait_in_each_kernel(body.top.text()),
        wait_in_each_kernel(body.w.text()),
        f"static void unit({listed}{'const CUtensorMap* maps, ' * bool(body.maps)}void* workspace, void* stream) {{",
        "" if body.workspace else "  (void)workspace;", indent_lines(unit.text()) + "}",
    ]  # fmt: skip
    return "\n".join(p for p in parts if p) + "\n"


def _launch(w: Writer, launch: Launch, operands: Sequence[str]) -> None:
    """No launch where there is nothing to do: a grid of no blocks is an error."""
    name, shared = launch.kernel, launch.shared
    if shared != "0":
        w.line(f"cudaFuncSetAttribute({name}, cudaFuncAttributeMaxDynamicSharedMemorySize, {shared});")
    for line in launch.setup.splitlines():
        w.line(line)
    arguments = ", ".join([*operands, *([launch.extra] if launch.extra else [])])
    if launch.together:
        w.line(
            f"if ({launch.blocks} > 0) ws::launch_together({name}, {launch.blocks}, {launch.threads}, {shared}, on, {arguments});"
        )
        return
    w.line(
        f"if ({launch.blocks} > 0) ws::launch_dependent({name}, (unsigned)({launch.blocks}), {launch.threads}, {shared}, on, {arguments});"
    )


def wait_in_each_kernel(text: str) -> str:
    """Let every kernel of a unit begin by waiting for earlier launches: without it a dependent launch is a race."""
    parts, end = [], 0
    for kernel in _KERNEL.finditer(text):
        body = _find_body(text, kernel.end())
        parts += [text[end:body], WAITS]
        end = body
    return "".join([*parts, text[end:]])


def _find_body(text: str, start: int) -> int:
    """Return where a function's body begins, behind its brace: the first outside of parentheses."""
    depth = 0
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if text[position] == "{" and depth == 0:
            return position + 1
    raise ValueError("a kernel without a body")
