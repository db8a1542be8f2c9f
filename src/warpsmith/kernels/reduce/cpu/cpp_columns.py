"""Columns mode: the innermost loop is kept, so each lane reduces a column of its own. A thread takes blocks
of BLOCK vectors.

Rows are walked CHUNK at a time, sums flushed into double after each; the block's columns of all rows are
meant to stay in the second-level cache between passes. Lanes past the last column compute on zeros and are
never stored.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from ....codegen.addresses import Layout
from ....codegen.expressions import VECTOR_TYPE, Express
from ....codegen.passes import Pass, describe, list_scratch_steps, passes
from ....codegen.program import Program
from ....codegen.templates import render
from ....codegen.writer import INLINE, Writer, open_nested
from .cpp_column_states import COLUMN_STATES
from .cpp_totals import Totals


class Columns:
    """Writes the body of `unit`, and the function for one block of columns, of a columns-mode program."""

    def __init__(self, program: Program, stash: bool) -> None:
        self.program = program
        self.layout, self.w = Layout(program), Writer()
        self.express = Express(program, self.layout, self.w)
        self.plan = passes(program)
        self.stash = list_scratch_steps(program) if stash and len(self.layout.reduces) == 1 else []
        self.totals = Totals(program, self.layout)

    def write_function(self) -> None:
        """`columns<FULL>`: one block; FULL says that all its lanes are within the data."""
        w = self.w
        operands = [*self.program.inputs, *(o for o, _ in self.program.outputs)]
        parameters = [f"{'const ' if o.name.startswith('in') else ''}{o.name}_t* {o.name}" for o in operands]
        scratch = ", float* scratch" if self.stash else ""
        parameters += ["int64_t row", "int64_t col", *(["double* totals"] if self.totals else [])]
        head = f"template <bool FULL> static void columns({', '.join(parameters)}{scratch})"
        w.line("// One block of columns of one row of blocks: all passes.")
        with w.block(head):
            w.line("const int vectors = FULL ? BLOCK : (int)((COLUMNS - col + VEC - 1) / VEC);")
            for i, name in enumerate(self.stash):
                w.line(f"float* const {name}_block = scratch + (int64_t){i} * REDUCE * BLOCK * VEC;")
            self.layout.pointers(self.w)
            self._row_steps(0)
            for p in self.plan:
                if p.last:
                    self._write_full(p)
                else:
                    self._reduce(p)
                    self._row_steps(p.number)
            self._row_outputs()
            if self.totals:
                with self._each_vector():
                    self.totals.lanes(w, self.express)
        w.prune(0)

    def write(self) -> None:
        w = self.w
        names = ", ".join(o.name for o in [*self.program.inputs, *(o for o, _ in self.program.outputs)])
        w.paste(render("reduce/cpu/column_blocks.h"))
        self.totals.declare(w, self.stash_bytes)
        part = "int part" if self.stash or self.totals else "int"
        with w.block(
            f"ws::parallel_ranges(THREADS, ROWS * blocks, grain, [&](int64_t begin, int64_t end, {part})",
            "});",
        ):
            scratch = ", totals" if self.totals else ""
            self.totals.open(w)
            if self.stash:
                w.line(
                    f"float* const scratch = (float*)workspace + (int64_t)part * {len(self.stash)} * STASH;"
                )
                scratch += ", scratch"
            with w.block("for (int64_t task = begin; task < end; ++task)"):
                w.line("const int64_t row = task / across, col = task % across * (BLOCK * VEC);")
                w.line(f"if (col + BLOCK * VEC <= COLUMNS) columns<true>({names}, row, col{scratch});")
                w.line(f"else columns<false>({names}, row, col{scratch});")
            if any(p.last for p in self.plan):
                w.line("if (NT) ws::fence();")
        if self.totals:
            self.totals.merge(w)
            self.totals.finish(w)

    @property
    def stash_bytes(self) -> str:
        return f"(uint64_t)THREADS * {len(self.stash)} * STASH * sizeof(float)" if self.stash else ""

    # ---- pieces

    def _row_steps(self, stage: int) -> None:
        """Values per column: an array over the vectors of the block."""
        w = self.w
        steps = [s for s in self.program.steps if not s.full and s.stage == stage and not s.is_reduction]
        steps = [s for s in steps if not self.express.constant(s)]
        if not steps:
            return
        for kind, typename in VECTOR_TYPE.items():
            names = [s.name for s in steps if s.kind == kind]
            if names:
                w.line(f"{typename} {', '.join(f'{n}[BLOCK]' for n in names)};")
        with self._each_vector():
            for step in steps:
                w.line(f"{step.name}[b] = {self.express.vector_text(step, _index_by_lane, lanes_rows=True)};")

    def _each_vector(self) -> ExitStack:
        stack = ExitStack()
        if self.w.lines and not self.w.lines[-1].startswith("#"):
            self.w.lines.append("#pragma GCC unroll 8")
        stack.enter_context(self.w.block("for (int b = 0; b < (FULL ? BLOCK : vectors); ++b)"))
        self._lane_position()
        return stack

    def _lane_position(self) -> None:
        self.w.line("const int64_t j = col + b * VEC;")
        self.w.line("const int n = FULL || COLUMNS - j >= VEC ? VEC : (int)(COLUMNS - j);")
        self.w.line("(void)n;")

    def _reduce(self, p: Pass) -> None:
        w = self.w
        second_parts = {s.of: s for s in self.program.reductions if s.part == 1}
        states = [COLUMN_STATES[s.reduction](s, second_parts.get(s.name), "BLOCK") for s in p.reductions]
        w.line(f"// Pass {p.number}: {', '.join(describe(s) for s in p.reductions)}, down each column.")
        for state in states:
            state.declare(w)
        *outer, innermost = self.layout.reduces
        loops = [f"for (int64_t {r.tag} = 0; {r.tag} < {r.extent}; ++{r.tag})" for r in outer]
        with open_nested(w, loops):  # noqa: SIM117
            with w.block(f"for (int64_t c = 0; c < {innermost.extent}; c += CHUNK)"):
                w.line(
                    f"const int64_t end = c + CHUNK < {innermost.extent} ? c + CHUNK : {innermost.extent};"
                )
                w.line("[[maybe_unused]] const int64_t many = end - c;")
                for state in states:
                    state.open_chunk(w)
                self._loop(p, [s.accumulate_first for s in states], list(p.sources), keep_stash=True)
                if any(s.two_loops for s in states):
                    two_loop_states = [s for s in states if s.two_loops]
                    for state in two_loop_states:
                        state.prepare_second(w)
                    self._loop(
                        p,
                        [s.accumulate_second for s in two_loop_states],
                        [s.source for s in two_loop_states],
                        keep_stash=False,
                    )
                for state in states:
                    state.close_chunk(w)
        for state in states:
            state.value(w)

    def _loop(
        self, p: Pass, actions: list[Callable[[Writer], None]], sources: list[str], keep_stash: bool
    ) -> None:
        tag = self.layout.reduces[-1].tag
        self.w.use("sweep")
        with self.w.block(f"sweep<FULL>(c, end, vectors, [&](int64_t {tag}, int b) {INLINE}", "});"):
            self._lane_position()
            self._lanes(p, sources, keep_stash)
            for action in actions:
                action(_Indexed(self.w, tag))

    def _lanes(self, p: Pass, sources: list[str], keep_stash: bool) -> None:
        w, tag = self.w, self.layout.reduces[-1].tag
        earlier = [q for q in self.plan if q.number < p.number]
        earlier_names = {s.name for q in earlier for s in self.program.list_needed_steps(list(q.sources))}
        reused = [n for n in self.stash if n in earlier_names]
        steps = self.program.list_needed_steps(sources, frozenset(reused))
        used = {a for s in steps for a in s.args} | set(sources)
        for name in reused:
            if name in used:
                w.line(f"const ws::vf {name} = ws::load({name}_block + ({tag} * BLOCK + b) * VEC);")
        self.express.vector(steps, _index_by_lane, lanes_rows=True)
        for name in self.stash:
            if keep_stash and not p.last and name not in reused and any(s.name == name for s in steps):
                w.line(f"ws::store({name}_block + ({tag} * BLOCK + b) * VEC, {name});")

    def _write_full(self, p: Pass) -> None:
        w = self.w
        full = [(o, n) for o, n in self.program.outputs if self.program.step(n).full]
        w.line(f"// Last pass: write {', '.join(o.name for o, _ in full)}.")
        loops = [f"for (int64_t {r.tag} = 0; {r.tag} < {r.extent}; ++{r.tag})" for r in self.layout.reduces]
        with open_nested(w, loops), self._each_vector():
            self._lanes(p, list(p.sources), keep_stash=False)
            for operand, name in full:
                self.express.store(operand, name)

    def _row_outputs(self) -> None:
        rows = [(o, n) for o, n in self.program.outputs if not self.program.step(n).full]
        if not rows:
            return
        with self._each_vector():
            for operand, name in rows:
                step = self.program.step(name)
                value = self.express.splat(step) if self.express.constant(step) else f"{name}[b]"
                self.express.store(operand, value, stream=False)


def _index_by_lane(name: str) -> str:
    return f"{name}[b]"


class _Indexed(Writer):
    """Passes lines on to another writer; INDEX becomes the loop variable of the reduced axis."""

    def __init__(self, inner: Writer, tag: str) -> None:
        super().__init__()
        self.inner, self.tag = inner, tag

    def line(self, text: str = "") -> None:
        self.inner.line(text.replace("INDEX", self.tag))

    def use(self, helper: str) -> None:
        self.inner.use(helper)
