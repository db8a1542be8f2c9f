"""Rows mode in two stages: for few, long rows, each of which is cut into SPLIT parts for the threads.

In: a program. Out: the body of `unit`. A part's results are slots of doubles in the workspace; whoever needs a row's
values merges its parts in order, so that every thread finds the same.
"""

from __future__ import annotations

from ....codegen.passes import Pass
from ....codegen.program import Program
from ....codegen.writer import Writer
from .cpp_rows import Rows


class SplitRows(Rows):
    def __init__(self, program: Program) -> None:
        super().__init__(program, stash=False)

    def write(self) -> None:
        """Each pass is a parallel loop over (row, part); what it finds goes to the workspace and is merged in
        order.
        """
        w = self.w
        w.line("constexpr int64_t part_size = ((REDUCE_INNER + SPLIT - 1) / SPLIT + 63) / 64 * 64;")
        w.line("double* const slots = (double*)workspace;")
        for p in self.plan:
            head = "ws::parallel_ranges(THREADS, ROWS * SPLIT, 1, [&](int64_t begin, int64_t end_task, int)"
            w.line(
                f"// {'Last stage: write the outputs' if p.last else f'Stage {p.number}: partial results'}."
            )
            start = len(w.lines)
            with w.block(head, "});"), w.block("for (int64_t task = begin; task < end_task; ++task)"):
                w.line("const int64_t row = task / SPLIT;")
                w.line("const int64_t low = task % SPLIT * part_size;")
                w.line(
                    "const int64_t high = low + part_size < REDUCE_INNER ? low + part_size : REDUCE_INNER;"
                )
                self._done = set()
                self.layout.pointers(self.w)
                self._merge_earlier(p.number)
                if p.last:
                    self._write_full(p, "low", "high")
                else:
                    states = self._states(p)
                    self._reduce(p, states, "low", "high")
                    w.line(f"double* slot = slots + task * {self.slots} + {self._offset(p)};")
                    for state in states:
                        state.save(w)
            w.prune(start)
        if self.totals or any(not self.program.step(n).full for _, n in self.program.outputs):
            self._emit_merged_rows()

    def _emit_merged_rows(self) -> None:
        w = self.w
        w.line("// The rows' own outputs, from the merged parts.")
        start = len(w.lines)
        self.totals.local(w)
        with w.block("for (int64_t row = 0; row < ROWS; ++row)"):
            self._done = set()
            self.layout.pointers(w)
            self._merge_earlier(self.program.passes + 1)
            self._row_outputs()
            self.totals.row(w, self.express)
        if self.totals:
            self.totals.finish(w)
        w.prune(start)

    @property
    def workspace(self) -> str:
        return f"(uint64_t)({self.layout.expression('ROWS')}) * SPLIT * {self.slots} * sizeof(double)"

    @property
    def slots(self) -> int:
        """Doubles that the partial results of one part of one row take."""
        return sum(s.slots for p in self.plan for s in self._states(p))

    def _offset(self, p: Pass) -> int:
        return sum(s.slots for q in self.plan if q.number < p.number for s in self._states(q))

    def _merge_earlier(self, number: int) -> None:
        """The row's values from all passes before `number`, merged over the parts in order: every thread gets
        the same.
        """
        w = self.w
        self._row_steps(0)
        for p in self.plan:
            if p.last or p.number >= number:
                continue
            states = self._states(p)
            accumulators = Writer()
            for state in states:
                state.declare(accumulators)
            if any(s.kind == "argmax" for s in states):
                w.line("const int64_t from = 0;")
            for line in accumulators.lines:
                if "_total" in line or "_best" in line:
                    w.line(line)
            with w.block("for (int64_t part = 0; part < SPLIT; ++part)"):
                w.line(
                    f"const double* slot = slots + (row * SPLIT + part) * {self.slots} + {self._offset(p)};"
                )
                for state in states:
                    state.merge(w)
            for state in states:
                state.value(w)
            self._row_steps(p.number)
