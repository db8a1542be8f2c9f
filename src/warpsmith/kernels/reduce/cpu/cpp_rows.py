"""Rows mode: the innermost loop is reduced. A thread takes whole rows.

Every pass walks the row with UNROLL accumulators; sums are flushed into double every CHUNK elements. What a
row yields is scalar and is spread over lanes where lanes need it. The last pass writes the outputs that span
the row.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from ....codegen.addresses import Layout
from ....codegen.expressions import Express
from ....codegen.lowering.op_builder import kind_of
from ....codegen.passes import Pass, describe, list_scratch_steps, passes
from ....codegen.program import Operand, Program
from ....codegen.writer import INLINE, Writer, open_nested
from .cpp_states import ROW_STATES, State
from .cpp_totals import Totals


class Rows:
    """Writes the body of `unit` for a rows-mode program."""

    def __init__(self, program: Program, stash: bool) -> None:
        self.program = program
        self.layout, self.w = Layout(program), Writer()
        self.express = Express(program, self.layout, self.w)
        self.plan = passes(program)
        self.stash = list_scratch_steps(program) if stash and not self.layout.reduces else []
        self._done: set[str] = set()  # row steps already written in the current scope
        self.totals = Totals(program, self.layout)
        self.w.use("vectors")

    def write(self) -> None:
        w = self.w
        arguments = (
            "[&](int64_t begin, int64_t end_row, int part)"
            if self.stash or self.totals
            else "[&](int64_t begin, int64_t end_row, int)"
        )
        self.totals.declare(w, self.stash_bytes)
        w.line("constexpr int64_t grain = REDUCE >= GRAIN ? 1 : GRAIN / (REDUCE > 0 ? REDUCE : 1);")
        with w.block(f"ws::parallel_ranges(THREADS, ROWS, grain, {arguments}", "});"):
            if self.stash:
                w.line(f"float* const scratch = (float*)workspace + part * {len(self.stash)} * STASH;")
            self.totals.open(w)
            with w.block("for (int64_t row = begin; row < end_row; ++row)"):
                self.layout.pointers(self.w)
                self._stash_rows()
                self._row_steps(0)
                for p in self.plan:
                    self._pass(p, "0", "REDUCE_INNER")
                self._row_outputs()
                self.totals.row(w, self.express)
            if any(p.last for p in self.plan):
                w.line("if (NT) ws::fence();")
        if self.totals:
            self.totals.merge(w)
            self.totals.finish(w)
        w.prune(0)

    @property
    def workspace(self) -> str:
        """Bytes, as C++; "" for none."""
        return self.totals.workspace(self.stash_bytes)

    @property
    def stash_bytes(self) -> str:
        return f"(uint64_t)THREADS * {len(self.stash)} * STASH * sizeof(float)" if self.stash else ""

    # ---- pieces

    def _stash_rows(self) -> None:
        """Place the row of each kept step: in an output's own row, which the last pass overwrites, so that its lines are
        fetched while the values are computed; in a scratch row where the stores stream past the cache.
        """
        full = [
            o for o, name in self.program.outputs if self.program.step(name).full and o.dtype == "float32"
        ]
        for i, name in enumerate(self.stash):
            scratch = f"scratch + {i} * STASH"
            if i < len(full) and (stride := self.layout.lane_stride(full[i])) != "0":
                scratch = f"{stride} == 1 && !NT ? {full[i].name}_at : {scratch}"
            self.w.line(f"float* const {name}_row = {scratch};")

    def _row_steps(self, stage: int) -> None:
        """The row's own values that are known once `stage` passes are over."""
        fresh = [
            s for s in self.program.steps
            if not s.full and s.stage == stage and not s.is_reduction and s.name not in self._done
        ]  # fmt: skip
        self._done |= {s.name for s in fresh}
        self.express.scalar(fresh)

    def _states(self, p: Pass) -> list[State]:
        second_parts = {s.of: s for s in self.program.reductions if s.part == 1}
        return [ROW_STATES[s.reduction](s, second_parts.get(s.name), "UNROLL") for s in p.reductions]

    def _pass(self, p: Pass, begin: str, end: str) -> None:
        if p.last:
            self._write_full(p, begin, end)
            return
        states = self._states(p)
        self.w.line(f"// Pass {p.number}: {', '.join(describe(s) for s in p.reductions)}.")
        self._reduce(p, states, begin, end)
        for state in states:
            state.value(self.w)
        self._row_steps(p.number)

    def _reduce(self, p: Pass, states: list[State], begin: str, end: str) -> None:
        w = self.w
        if any(s.kind == "argmax" for s in states):
            w.line(f"const int64_t from = {begin};")
        for state in states:
            state.declare(w)
        with self.layout.assume_joined_loops(self._read(p)) as joined:
            outer, inner = ([], "") if joined else self._outer_loops()
            stop = "REDUCE" if joined else end
            with open_nested(w, [*outer, f"for (int64_t c = {begin}; c < {stop}; c += CHUNK)"]):
                w.line(f"const int64_t end = c + CHUNK < {stop} ? c + CHUNK : {stop};")
                self._chunk(p, states, inner)
        for state in states:
            state.finish(w)

    def _outer_loops(self) -> tuple[list[str], str]:
        """Heads of the loops around a chunk, and of the loop within it: over as many runs of the innermost axes as
        make a chunk together, so that short runs share their accumulators.
        """
        if not self.layout.reduces:
            return [], ""
        *outer, inner = self.layout.reduces
        heads = [f"for (int64_t {r.tag} = 0; {r.tag} < {r.extent}; ++{r.tag})" for r in outer]
        heads.append(f"for (int64_t batch = 0; batch < {inner.extent}; batch += runs)")
        past = f"(batch + runs < {inner.extent} ? batch + runs : {inner.extent})"
        return heads, f"for (int64_t {inner.tag} = batch; {inner.tag} < {past}; ++{inner.tag})"

    def _chunk(self, p: Pass, states: list[State], inner: str) -> None:
        """One chunk: each state's work in lanes, flushed at the end. `inner`: head of a loop over several runs."""
        w = self.w
        count = "end - c"
        if inner:
            remaining = f"{self.layout.reduces[-1].extent} - batch"
            count = f"(end - c) * ({remaining} < runs ? {remaining} : runs)"
        w.line(f"[[maybe_unused]] const int64_t many = {count};")
        for state in states:
            state.open_chunk(w)
        with open_nested(w, [inner] if inner else []):
            self._loop(p, [s.accumulate_first for s in states], list(p.sources), keep_stash=True)
        two_loop_states = [s for s in states if s.two_loops]
        if two_loop_states:
            for state in states:
                state.prepare_second(w)
            with open_nested(w, [inner] if inner else []):
                self._loop(
                    p,
                    [s.accumulate_second for s in two_loop_states],
                    [s.source for s in two_loop_states],
                    keep_stash=False,
                )
        for state in states:
            state.close_chunk(w)

    def _read(self, p: Pass) -> list[Operand]:
        """The operands that a pass reads lane by lane."""
        return [s.operand for s in self.program.list_needed_steps(list(p.sources)) if s.operand is not None]

    def _loop(
        self, p: Pass, actions: list[Callable[[Writer], None]], sources: list[str], keep_stash: bool
    ) -> None:
        w = self.w
        with w.block(f"vectors(c, end, [&](int64_t j, int n, int u) {INLINE}", "});"):
            self._lanes(p, sources, keep_stash)
            for action in actions:
                action(w)

    def _lanes(self, p: Pass, sources: list[str], keep_stash: bool) -> None:
        """The full steps of a pass; those kept in a scratch row are read back, or stored when new."""
        w = self.w
        reused = [n for n in self.stash if self._is_stashed_before(n, p)]
        steps = self.program.list_needed_steps(sources, frozenset(reused))
        used = {a for s in steps for a in s.args} | set(sources)
        for name in reused:
            if name in used:
                w.use("read")
                w.line(f"const ws::vf {name} = read<1>({name}_row, j, n);")
        self.express.vector(steps, lambda name: name, lanes_rows=False)
        for name in self.stash:
            if keep_stash and not p.last and name not in reused and any(s.name == name for s in steps):
                w.use("write")  # only the row's own lanes: past its end lies the next row of the output
                w.line(f"write<1>({name}_row, j, {name}, n);")

    def _is_stashed_before(self, name: str, p: Pass) -> bool:
        earlier = [q for q in self.plan if q.number < p.number]
        return any(s.name == name for q in earlier for s in self.program.list_needed_steps(list(q.sources)))

    def _write_full(self, p: Pass, begin: str, end: str) -> None:
        w = self.w
        full = [(o, n) for o, n in self.program.outputs if self.program.step(n).full]
        w.line(f"// Last pass: write {', '.join(o.name for o, _ in full)}.")
        with self._outer_reduces():  # noqa: SIM117
            with w.block(f"vectors({begin}, {end}, [&](int64_t j, int n, int) {INLINE}", "});"):
                self._lanes(p, list(p.sources), keep_stash=False)
                for operand, name in full:
                    self.express.store(operand, name)

    def _outer_reduces(self) -> ExitStack:
        return open_nested(
            self.w,
            [f"for (int64_t {r.tag} = 0; {r.tag} < {r.extent}; ++{r.tag})" for r in self.layout.reduces],
        )

    def _row_outputs(self) -> None:
        for operand, name in self.program.outputs:
            step = self.program.step(name)
            if step.full:
                continue
            text = step.text if self.express.constant(step) else name
            if kind_of(operand.dtype) != "f":
                self.w.line(f"*{operand.name}_at = {text};")
            else:
                self.w.line(f"ws::store_one({operand.name}_at, {text});")
