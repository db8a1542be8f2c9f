"""Few long reductions: each is cut into PARTS, one block a part, whose states meet in the workspace.

A kernel for each pass that reduces, and one that writes. Every block first merges the states of all parts that earlier
kernels left, in a fixed order, so that no kernel is needed in between; where nothing spans the row, the last kernel
only does that, a group of threads a row.
"""

from __future__ import annotations

from ....codegen.cuda.cuda_source import CudaBody, Launch, kernel_head
from ....codegen.cuda.threads import Threads
from ....codegen.passes import Pass
from ....codegen.program import Program
from . import cuda_states as states
from .cuda_totals import Totals
from .row_reduction import RowReduction


class SplitRowReduction(RowReduction):
    def __init__(self, program: Program) -> None:
        super().__init__(program, "none")
        self.ends = "RAGGED && part == 0"
        self.threads = Threads(
            program,
            self.layout,
            parts="PACKS < GROUP * SPLIT ? ws::ceil_div(PACKS, GROUP) + (PACKS == 0) : SPLIT",
        )
        self.first = [s for p in self.plan for s in p.reductions]
        self.words = sum(states.words(s) for s in self.first)
        self.totals = Totals(program, self.threads, self.threads.room(self.words))

    def body(self) -> CudaBody:
        self.layout.declare(self.top)
        self.threads.declare(self.top)
        self.layout.declare_aligned(self.top, self._operands())
        offset = (
            f"(char*)workspace + {len(self.totals.totals)} * KEPT * sizeof(double)"
            if self.totals
            else "workspace"
        )
        launches = []
        for p in self.plan:
            name = "write" if p.last else f"part{p.number}"
            self._kernel(name, p)
            launches.append(Launch(name, self.threads.blocks, "SIZE", extra=self._arguments(p, offset)))
        if not self.plan[-1].last:
            self._finish()
            launches.append(Launch("finish", "BUNDLES", "SIZE", extra=self._arguments(None, offset)))
        if self.totals:
            self.totals.kernel(self.w)
            launches.append(self.totals.launch)
        return CudaBody(self.top, self.w, tuple(launches), self.totals.bytes)

    def _arguments(self, p: Pass | None, offset: str) -> str:
        saved = f"(unsigned*)({offset})"
        return f"{saved}, (double*)workspace" if self.totals and (p is None or p.last) else saved

    def _parameters(self, ends: bool) -> list[str]:
        return ["unsigned* saved", *(["double* totals"] if self.totals and ends else [])]

    def _kernel(self, name: str, p: Pass) -> None:
        w, end = self.w, self.layout.end
        self._done.clear()
        with w.block(kernel_head(name, self.program, "SIZE", self._parameters(p.last))):
            # What the pass before read last may still be in the cache.
            self.threads.place(w, "forwards" if p.number % 2 else "backwards")
            w.line(f"const int low = part * SHARE, high = low + SHARE < {end} ? low + SHARE : {end};")
            self._earlier(p.number)
            w.line(p.headline)
            for step in p.reductions:
                states.declare(w, step)
            self._emit_streaming_loop(p, "low + slot", "high")
            for step in p.reductions:
                w.line(f"merge_all({step.name}_state);")
            if p.reductions:
                with w.block("if (slot == 0 && inside)"):
                    for step in p.reductions:
                        at, stride = self._locate_state(step.name, "part")
                        w.line(f"ws::save(saved + {at}, {stride}, {step.name}_state);")
            else:
                self._ends("slot == 0 && inside && part == 0")

    def _finish(self) -> None:
        w = self.w
        self._done.clear()
        w.line("// The parts of each row together.")
        with w.block(kernel_head("finish", self.program, "SIZE", self._parameters(True))):
            self.threads.place(w)
            self._earlier(len(self.plan) + 1)
            self._ends("slot == 0 && inside")

    def _ends(self, who: str) -> None:
        per_row = [(o, n) for o, n in self.program.outputs if not self.program.step(n).full]
        if per_row or self.totals:
            with self.w.block(f"if ({who})"):
                self.lanes.write_rows(per_row)
                self.totals.save(self.w, self.lanes)

    def _earlier(self, number: int) -> None:
        """The row's values after the passes before this one."""
        self.row_steps(0)
        for p in self.plan[: number - 1]:
            for step in p.reductions:
                at, stride = self._locate_state(step.name, "i")
                states.declare(self.w, step)
                with self.w.block("for (int i = slot; i < PARTS; i += GROUP)"):
                    struct = states.struct(step)
                    self.w.line(f"{step.name}_state.merge(ws::load_state<{struct}>(saved + {at}, {stride}));")
                self.w.line(f"merge_all({step.name}_state);")
                states.values(self.w, self.program, step)
            self.row_steps(p.number)

    def _locate_state(self, name: str, part: str) -> tuple[str, str]:
        before = 0
        for step in self.first:
            if step.name == name:
                break
            before += states.words(step)
        return self.threads.locate_state(part, before, self.words)
