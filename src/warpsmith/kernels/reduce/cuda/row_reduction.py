"""Reductions with what is around them as one kernel: every row (or column) is finished by the threads it began with.

Three ways to hold a row between passes: in registers (each thread keeps its packs), in the block's shared memory as far
as it fits, or not at all: then it is read again. What goes to shared memory is copied there PREFETCH_STEPS of the pass that uses
it, each thread its own packs. Sums are of float32 in a tree: a thread's own, then the group's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from ....codegen.cuda.cuda_source import CudaBody, Launch, kernel_head
from ....codegen.cuda.lanes import CudaLayout, Lanes, bytes_of
from ....codegen.cuda.threads import Threads
from ....codegen.passes import Pass, passes
from ....codegen.program import Operand, Program
from ....codegen.writer import Writer
from . import cuda_states as states
from .cuda_totals import Totals
from .vector_steps import add, write_copies

Holding = Literal["registers", "shared", "none"]
MOST = 256  # elements of one operand that a thread may keep


class RowReduction:
    def __init__(self, program: Program, holding: Holding) -> None:
        self.program, self.holding = program, holding
        self.layout, self.top, self.w = CudaLayout(program), Writer(), Writer()
        self.lanes = Lanes(program, self.layout, self.w)
        self.threads = Threads(program, self.layout)
        self.plan = passes(program)
        self.totals = Totals(program, self.threads)
        self.attribute, self.share = "", "PACKS"  # of the kernel; packs that a block walks
        self.setup = ""  # before its launch
        self.who = "slot == 0 && inside"  # stores what a row yields
        self.ends = "RAGGED"  # who takes what packs leave at both ends of a row
        self._done: set[str] = set()
        self._kept_already: set[str] = set()  # operands whose packs are in shared memory by now

    def _declare(self) -> None:
        """Write the declarations before the kernels."""
        self.layout.declare(self.top)
        self.threads.declare(self.top)
        self.layout.declare_aligned(self.top, self._operands())
        self._room()

    def body(self) -> CudaBody:
        w, top = self.w, self.top
        self._declare()
        extra = ["double* totals"] if self.totals else []
        with w.block(kernel_head("rows", self.program, "SIZE", extra, self.attribute)):
            self._place()
            if self.holding == "registers":
                self.lanes.packs(self._list_resident(), "ITEMS")
                with self._items():
                    self._read(self._list_resident())
            elif self.holding == "shared":
                self._declare_shared_rows()
            self.row_steps(0)
            for p in self.plan:
                self._pass(p)
            self._row_outputs()
        shared = "SHARED" if self.holding == "shared" else "0"
        workspace = "(double*)workspace" if extra else ""
        launches = [Launch("rows", self.threads.blocks, "SIZE", shared, workspace, setup=self.setup)]
        if self.totals:
            self.totals.kernel(w)
            launches.append(self.totals.launch)
        return CudaBody(top, w, tuple(launches), self.totals.bytes)

    # ---- pieces

    def row_steps(self, stage: int) -> None:
        """The row's own values that are known once `stage` passes are over."""
        fresh = [
            s for s in self.program.steps
            if not s.full and s.stage == stage and not s.is_reduction and s.name not in self._done
        ]  # fmt: skip
        self._done |= {s.name for s in fresh}
        self.lanes.scalar(fresh)

    def _operands(self) -> list[Operand]:
        loads = (s.operand for s in self.program.steps if s.operand is not None and s.full)
        written = (o for o, n in self.program.outputs if self.program.step(n).full)
        return [*{o.name: o for o in loads}.values(), *written]

    def read_again(self) -> list[Operand]:
        """List the operands that several passes read."""
        reads = [{o.name: o for o in self.lanes.operands(p.sources)} for p in self.plan]
        every = {name: o for r in reads for name, o in r.items()}
        return [o for n, o in every.items() if sum(n in r for r in reads) > 1]

    def _list_resident(self) -> list[Operand]:
        return [] if self.holding == "none" else self.read_again()

    def _by_width(self) -> list[Operand]:
        """List the resident operands in their order in shared memory: the widest first, so that all stay aligned."""
        return sorted(self._list_resident(), key=lambda o: -bytes_of(o))

    def _room(self) -> None:
        top = self.top
        if self.holding == "registers":
            top.line(
                "constexpr int ITEMS = PACKS > GROUP ? ws::ceil_div(PACKS, GROUP) : 1;  // packs of a thread"
            )
            top.line(f'static_assert(ITEMS * V <= {MOST}, "requires: a row that fits registers");')
        elif self.holding == "shared":
            sizes = " + ".join(f"sizeof({o.name}_t)" for o in self._list_resident())
            top.line(
                f"constexpr int ROOM = SMEM_KIB * 1024 / (int)(V * ({sizes}));  // packs that a block can keep"
            )
            top.line(f"constexpr int KEPT = {self.share} < ROOM ? {self.share} : ROOM;")
            top.line(f"constexpr int SHARED = KEPT * V * (int)({sizes});")
            top.line('#include "warpsmith_cuda_mma.h"')
            self._copies(self._list_resident())

    def _copies(self, operands: Sequence[Operand], hinted: bool = False) -> None:
        write_copies(self.top, hinted)
        for o in operands:
            aligned = f"{o.name}_whole && copied<{o.name}_t> && {self.lanes.stride(o)} == 1"
            self.top.line(f"constexpr bool {o.name}_copied = {aligned};")

    def _place(self) -> None:
        self.threads.place(self.w)

    def _number(self) -> str:
        """Return the number of a pack among those that the block keeps."""
        return "task"

    def _declare_shared_rows(self) -> None:
        before = "ws::dynamic_shared()"
        for operand in self._by_width():
            name = operand.name
            self.w.line(f"ws::Pack<{name}_t, V>* const {name}_kept = (ws::Pack<{name}_t, V>*)({before});")
            before = f"{name}_kept + KEPT"

    @contextmanager
    def _items(self, count: str = "ITEMS", end: str = "", whole: bool = False) -> Iterator[None]:
        """The loop over a thread's packs: `task` is the number of the pack, which there is, as all are if `whole`."""
        base = "slot" if count == "ITEMS" else "base"
        self.w.line("#pragma unroll")
        with self.w.block(f"for (int u = 0; u < {count}; u++)"):
            self.w.line(f"const int task = {base} + u * GROUP;")
            if not whole:
                self.w.line(f"if (task >= {end or self.layout.end}) continue;")
            self.layout.split_task(self.w, "int")
            yield

    def _read(self, operands: Sequence[Operand]) -> None:
        resident = {o.name for o in self._list_resident()} if self.holding == "shared" else set()
        for operand in operands:
            name, text = operand.name, self.lanes.read(operand)
            if name not in resident:
                self.w.line(f"{name}_pack[u] = {text};")
            elif name in self._kept_already:
                resident_text = f"{self._number()} < KEPT ? {name}_kept[{self._number()}]"
                self.w.line(f"{name}_pack[u] = {resident_text} : {text};")
            else:
                number = self._number()
                with self.w.block(f"if ({name}_copied && {number} < KEPT)"):
                    self.w.line(f"{name}_pack[u] = {name}_kept[{number}];")
                with self.w.block("else"):
                    self.w.line(f"{name}_pack[u] = {text};")
                    self.w.line(f"if ({number} < KEPT) {name}_kept[{number}] = {name}_pack[u];")

    def _pass(self, p: Pass) -> None:
        w = self.w
        w.line(p.headline)
        for step in p.reductions:
            states.declare(w, step)
        if self.holding == "registers":
            resident = {o.name for o in self._list_resident()}
            streamed = [o for o in self.lanes.operands(p.sources) if o.name not in resident]
            with self._items():
                self.lanes.packs(streamed, "ITEMS")
                self._read(streamed)
                self._elements(p)
            self._edges(p)
        else:
            self._emit_streaming_loop(p)
        for step in p.reductions:
            w.line(f"merge_all({step.name}_state);")
            states.values(w, self.program, step)
        if not p.last:
            self.row_steps(p.number)

    def _emit_streaming_loop(self, p: Pass, begin: str = "slot", end: str = "") -> None:
        w, read, end = self.w, self.lanes.operands(p.sources), end or self.layout.end
        resident = (
            {o.name for o in self._list_resident()} - self._kept_already
            if self.holding == "shared"
            else set()
        )
        fresh = [o for o in read if o.name in resident]
        if fresh:
            self._ahead(fresh, begin, end, p.number)
        with w.block(f"for (int base = {begin}; base < {end}; base += GROUP * UNROLL)"):
            if fresh:
                w.line("ws::copy_wait<PREFETCH_STEPS - 1>();")
            self.lanes.packs(read, "UNROLL")
            if read:
                with self._items("UNROLL", end):
                    self._read(read)
            with self._items("UNROLL", end):
                self._elements(p)
            if fresh:
                w.line(f"ahead{p.number}(base + PREFETCH_STEPS * GROUP * UNROLL);")
        self._kept_already |= {o.name for o in read}
        self._edges(p)

    def _ahead(self, operands: Sequence[Operand], begin: str, end: str, number: int) -> None:
        """Asks for a thread's first PREFETCH_STEPS times UNROLL packs, and says how to ask for the next ones."""
        w = self.w
        with w.block(f"const auto ahead{number} = [&](int base)", "};"):
            with self._items("UNROLL", f"{end} || {self._number()} >= KEPT"):
                for o in operands:
                    where = f"{o.name}_kept + {self._number()}, {self.lanes.places.element(o)}"
                    w.line(f"copy_pack<{o.name}_copied>({where});")
            w.line("ws::copy_commit();")
        w.line("#pragma unroll")
        w.line(f"for (int i = 0; i < PREFETCH_STEPS; i++) ahead{number}({begin} + i * GROUP * UNROLL);")

    def _edges(self, p: Pass) -> None:
        """Read the elements at both ends of a ragged row that packs do not cover: packs of one, of which none is kept."""
        if not self.layout.lead:
            return
        w, read = self.w, self.lanes.operands(p.sources)
        with (
            w.block(f"if ({self.ends})"),
            w.block("for (int e = slot; e < (int)REDUCE - packs * V; e += GROUP)"),
        ):
            w.line("const int task = e < head ? e : packs * V + e;")
            with w.block(""):
                w.line("constexpr int V = 1, head = 0, u = 0;")
                self.layout.split_task(w, "int")
                self.lanes.packs(read, "1")
                for operand in read:
                    w.line(f"{operand.name}_pack[u] = {self.lanes.read(operand)};")
                self._elements(p)

    def _elements(self, p: Pass) -> None:
        if p.last:
            full = [(o, n) for o, n in self.program.outputs if self.program.step(n).full]
            with self.w.block("if (inside)"):
                self.lanes.write_full(full)
        else:
            add(self.w, self.lanes, p.reductions)

    def _row_outputs(self) -> None:
        per_row = [(o, n) for o, n in self.program.outputs if not self.program.step(n).full]
        if per_row or self.totals:
            with self.w.block(f"if ({self.who})"):
                self.lanes.write_rows(per_row)
                self.totals.save(self.w, self.lanes)
