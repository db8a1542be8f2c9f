"""Long rows by teams of blocks that stay on the GPU: loading never stops, neither between rows nor while a team agrees.

A team of blocks shares a row, each block a part of it, and goes from row to row; the next one comes while this one is
written (`rings.py`). Where a part is kept whole, the next row is also added meanwhile: each step that is written is followed
by adding one, OVERLAP_STEPS steps or more in front, and a row's states are posted that much before its writing needs those of the
others. LAG steps are under way at any time.

The last KEPT steps of a row are still there when it is written; earlier ones, where a part is longer, are read again, the
latest first, as the L2 cache may have them: what is kept leaves that cache first.

Near: a team is a cluster, whose blocks read each other's shared memory (compute capability 9.0 on; before, one
block). Else teams are cut from all blocks that fit on the GPU, and meet in the workspace: for rows too long for a cluster.

In: a program with one pass that reduces and one that writes. Out: one kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext

from ....codegen.cuda.cuda_source import CudaBody, Launch, kernel_head
from ....codegen.passes import Pass, describe
from ....codegen.program import Expr, Operand, Program
from ....codegen.templates import render
from . import cuda_states as states
from . import vector_steps as packs
from .cluster_dsmem import render_cluster_launch
from .row_rings import HELD, NEXT, RowRing

_NEAR = """\
constexpr int parts = PARTS;
__shared__ unsigned boxes[2 * WORDS];
"""


class PersistentRows(RowRing):
    def __init__(self, program: Program, near: bool) -> None:
        super().__init__(program)
        self.near = near
        self.words = sum(states.words(s) for s in self.reducing.reductions)
        self.who = "slot == 0 && part == 0"

    def body(self) -> CudaBody:
        w, top = self.w, self.top
        self._declare()
        extra, attribute = ([], "BLOCKS_MEET ") if self.near else (["uint64_t* boxes", "int parts"], "")
        with w.block(kernel_head("rows", self.program, "SIZE", extra, attribute)):
            begin = render("reduce/cuda/persistent_row_parts.cuh")
            for line in (_NEAR + begin if self.near else begin).splitlines():
                w.line(line)
            self._ask_ahead()
            self._add()
            with w.block("for (index_t row = team; row < ROWS; row += teams)"):
                self.layout.pointers(w)
                self.row_steps(0)
                w.line("#pragma unroll 1")
                w.line("while (added_row < ROWS && (added_row <= row || added < early)) add(false);")
                self._gather()
                self._row_outputs()
                self._write()
            if self.near:
                w.line("ws::meet_cluster();  // a block's memory must outlive what others read of it")
        launch, workspace = self._launch()
        return CudaBody(top, w, (launch,), workspace)

    def _launch(self) -> tuple[Launch, str]:
        if self.near:
            blocks = "ws::clusters_of(rows, PARTS, SIZE, SHARED, ROWS) * PARTS"
            return Launch("rows", blocks, "SIZE", "SHARED", setup="ALLOW(rows);"), ""
        setup = (
            "const ws::Teams teams = ws::teams_of(rows, SIZE, SHARED, ROWS_IN_FLIGHT < ROWS ? ROWS_IN_FLIGHT : ROWS, PACKS / GROUP);\n"
            "cudaMemsetAsync(workspace, 0, (size_t)teams.blocks * 2 * WORDS * sizeof(uint64_t), on);"
        )
        extra = "(uint64_t*)workspace, teams.parts"
        launch = Launch("rows", "teams.blocks", "SIZE", "SHARED", extra, setup=setup, together=True)
        return launch, f"4096 * {2 * self.words} * sizeof(uint64_t)"

    def _room(self) -> None:
        for line in (
            '#include "warpsmith_cuda_meeting.h"', '#include "warpsmith_cuda_resident.h"',
            *(render_cluster_launch().splitlines() if self.near else []),
            f"constexpr int WORDS = {self.words};  // of a row's states",
        ):  # fmt: skip
            self.top.line(line)
        super()._room()

    def _add(self) -> None:
        """Adds the next step of the row that is not all added yet, and posts the row's states after the last one."""
        w, p, computed = self.w, self.reducing, set(self._done)
        for step in p.reductions:
            states.declare(w, step)
        w.line("index_t added_row = team;")
        w.line("int added = 0;  // steps of it")
        w.line("unsigned number = 0;  // of the last exchange")
        w.line(f"// {', '.join(describe(s) for s in p.reductions)}.")
        with w.block("const auto add = [&](bool steady)", "};"):
            w.line("if (added_row >= ROWS) return;")
            w.line("const index_t row = added_row;")
            w.line("const int i = added;")
            self.layout.pointers(w)
            self.row_steps(0)
            self._step(p, "from", fresh=True)
            w.line("if (++added < steps) return;")
            self._post_states()
            w.line("added = 0, added_row += teams;")
        self._done = computed

    def _post_states(self) -> None:
        w = self.w
        w.line("number++;")
        self._boxes()
        for step, before in self._by_box():
            state = f"{step.name}_state"
            to_cluster, to_memory = (
                f"post_near<GROUP>({state}, own + {before});",
                f"own + {before} * parts, part, number",
            )
            w.line(f"ws::{to_cluster if self.near else f'post_far<GROUP>({state}, {to_memory});'}")
            w.line(f"{state} = {{}};")
        if self.near:
            w.line("ws::arrive_at_cluster();")

    def _boxes(self) -> None:
        slot = "number % 2" if self.near else "(int64_t)(team * 2 + number % 2) * parts"
        self.w.line(f"auto* const own = boxes + {slot} * WORDS;")

    def _by_box(self) -> Iterator[tuple[Expr, int]]:
        """Each reduction with the words that lie before its state's."""
        before = 0
        for step in self.reducing.reductions:
            yield step, before
            before += states.words(step)

    def _gather(self) -> None:
        """The row's values: all blocks of the team get the same."""
        w = self.w
        self._boxes()
        if self.near:
            w.line("ws::wait_for_cluster();")
        for step, before in self._by_box():
            struct = states.struct(step)
            from_cluster = f"gather_near<PARTS, {struct}>(own + {before});"
            from_memory = f"gather_far<GROUP, {struct}>(own + {before} * parts, parts, number);"
            w.line(f"const {struct} {step.name}_state = ws::{from_cluster if self.near else from_memory}")
            states.values(w, self.program, step)
        self.row_steps(self.reducing.number)

    def _write(self) -> None:
        w, p = self.w, self.writing
        w.line("// Write what is still there, then what is not, which comes again.")
        w.line(f"#pragma unroll {'(FIXED > 0 ? KEPT : 1)' if self.fixed else '1'}")
        with w.block("for (int k = 0; k < KEPT; k++)"):
            w.line("const int i = again + k;")
            w.line("if (i >= steps) break;")
            self._step(p, "kept", fresh=False)
            w.line("if (along) add(true);")
        w.line("#pragma unroll 1")
        with w.block("for (int i = again - 1; i >= 0; i--)"):
            self._step(p, "from", fresh=True)
        w.line("kept = (kept + 2 * again) % ROOM;")

    def _read_once(self, operands: Sequence[Operand], fresh: bool) -> None:
        if not operands:
            return
        with self._items("UNROLL", "high"):
            for o in operands:
                in_registers = o == self.fixed and not fresh
                register = f"FIXED > 0 ? {o.name}_fixed[FIXED > 0 ? k : 0][u] : " if in_registers else ""
                self.w.line(f"{o.name}_pack[u] = {register}{self.lanes.read(o)};")

    def _add_step(self, p: Pass) -> None:
        """All packs of a step at once, so that a state changes once a step; one by one where some are not there."""
        w = self.w
        together = not any(s.reduction in packs.INDEXED for s in p.reductions)
        if together:
            with w.block("if (base + (UNROLL - 1) * GROUP < high)"):
                packs.begin(w, p.reductions, "UNROLL * V")
                with self._items("UNROLL", whole=True):
                    packs.gather(w, self.lanes, p.reductions, "u * V + v")
                packs.close(w, p.reductions, "0")
        with w.block("else") if together else nullcontext(), self._items("UNROLL", "high"):
            self._elements(p)

    def _step(self, p: Pass, place: str, fresh: bool) -> None:
        """Step i of a part, which lies at `place`. Fresh ones have to be waited for: those that were asked for later may be
        under way. Whatever is not kept, or was, frees its place.
        """
        w, read = self.w, self.lanes.operands(p.sources)
        resident = [o for o in self._list_resident() if o in read]
        streamed = [o for o in read if o not in resident]
        w.line("const int base = low + slot + i * STEP;")
        w.line(f"const int place = {place};")
        self.lanes.packs(read, "UNROLL")
        coming = self._coming() if p is self.writing and not fresh else []
        self._read_once([o for o in streamed if o not in coming], fresh)
        adding = p is self.reducing
        if adding:
            w.line("left--;")
            w.line("if (steady) ws::copy_wait<LAG>();")
            w.line("else ws::copy_wait_left(left);")
        elif fresh:
            w.line("ws::copy_wait_left(--left);")
        elif coming:
            w.line("ws::copy_wait<BROUGHT - 1>();")
        w.line("#pragma unroll")
        with w.block("for (int u = 0; u < UNROLL; u++)"):
            for o in resident:
                w.line(f"{o.name}_pack[u] = {o.name}_kept{HELD.format('place')};")
            for o in coming:
                w.line(f"{o.name}_pack[u] = {o.name}_kept{HELD.format('turn')};")
        if adding:
            self._add_step(p)
        else:
            with self._items("UNROLL", "high"):
                self._elements(p)
        if coming:
            w.line("bring();")
        w.line("if (!steady && i < again) fetch();" if adding else "fetch();")
        w.line(NEXT.format(place, "ROOM"))
