"""What all rows yield together: each row's value goes to the workspace, and one block combines them in a fixed order.

In: a program and how its threads are placed. Out: the lines that store a row's values, and the kernel that combines them
in double, computes the tail of the program and writes its outputs.
"""

from __future__ import annotations

from dataclasses import replace

from ....codegen.cuda.cuda_source import Launch, kernel_head
from ....codegen.cuda.lanes import Lanes
from ....codegen.cuda.threads import Threads
from ....codegen.program import Program
from ....codegen.writer import Writer
from .cuda_states import TOTALS

THREADS = 1024


class Totals:
    """Where a program has no totals, each piece is nothing. `before`: bytes of the workspace that are used otherwise,
    as C++ in terms of task.h, "" for none."""

    def __init__(self, program: Program, threads: Threads, before: str = "") -> None:
        self.program, self.threads, self.totals = program, threads, program.totals
        self.before = before

    def __bool__(self) -> bool:
        return bool(self.program.ends)

    @property
    def bytes(self) -> str:
        terms = [self.threads.layout.expression("ROWS")]
        if self.threads.columns:
            terms.append(self.threads.layout.expression("COLUMNS"))
        total_bytes = (
            " * ".join([f"(uint64_t){len(self.totals)} * sizeof(double)", *terms]) if self.totals else ""
        )
        return " + ".join(s for s in (total_bytes, self.before) if s)

    @property
    def launch(self) -> Launch:
        return Launch("combine", "1", str(THREADS), extra="(const double*)workspace")

    def save(self, w: Writer, lanes: Lanes) -> None:
        for i, step in enumerate(self.totals):
            w.line(f"totals[{i} * KEPT + {self.threads.number}] = (double){lanes.value(step.args[0])};")

    def kernel(self, w: Writer) -> None:
        w.line("// All rows together.")
        with w.block(kernel_head("combine", self.program, str(THREADS), ["const double* totals"])):
            for i, step in enumerate(self.totals):
                w.line(f"ws::TotalState<'{TOTALS[step.total]}'> {step.name}_state;")
                w.line("#pragma unroll 8")  # loads under way at once
                with w.block(f"for (int64_t i = threadIdx.x; i < KEPT; i += {THREADS})"):
                    w.line(f"{step.name}_state.take(totals[{i} * KEPT + i]);")
                w.line(f"ws::group_merge<{THREADS}>({step.name}_state);")
            w.line("if (threadIdx.x != 0) return;")
            for step in self.totals:
                kind = "int64_t" if step.kind == "l" else "float"
                w.line(f"const {kind} {step.name} = ({kind}){step.name}_state.value;")
            tail = replace(self.program, steps=self.program.tail)
            lanes = Lanes(tail, self.threads.layout, w)
            loads = (s.operand for s in tail.steps if s.operand is not None)
            for name in dict.fromkeys(o.name for o in loads):
                w.line(f"const {name}_t* const {name}_at = {name};")
            lanes.scalar(s for s in tail.steps if not s.total)
            for operand, name in self.program.ends:
                w.line(f"*{operand.name} = ws::narrowed<{operand.name}_t>({lanes.value(name)});")
