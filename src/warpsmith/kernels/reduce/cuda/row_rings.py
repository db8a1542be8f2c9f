"""What a block that stays on the GPU has ahead of its work: rings of steps in shared memory, each thread with packs of its own.

The rows' ring has ROOM steps: a place is asked for anew as soon as its step is not needed any more, so that the next row
comes while this one is written. What only the writing reads has a ring of BROUGHT steps; an operand that is the same for all
rows, such as a weight, stays in registers as far as there is room.

In: a program with one pass that reduces and one that writes. Out: C++ that asks for steps; `resident.py` has what uses them.
"""

from __future__ import annotations

from ....codegen.cuda.lanes import bytes_of
from ....codegen.program import Operand, Program
from ....codegen.templates import render
from .row_reduction import RowReduction

HELD = "[({0} * UNROLL + u) * GROUP + slot]"  # of the step at a place of a ring
NEXT = "{0} = {0} + 1 == {1} ? 0 : {0} + 1;"  # place of a ring, its steps

_BROUGHT = """\
constexpr int FRONT = OVERLAP_STEPS < 0 ? 4 : PREFETCH_STEPS > OVERLAP_STEPS ? PREFETCH_STEPS - OVERLAP_STEPS + 1 : 2, MOST = SMEM_KIB * 512 / BROUGHT_BYTES;
constexpr int BROUGHT = FRONT < MOST ? FRONT : MOST < 1 ? 1 : MOST;  // steps of what only the writing reads
"""


class RowRing(RowReduction):
    def __init__(self, program: Program) -> None:
        super().__init__(program, "shared")
        self.reducing, self.writing = self.plan
        self.fixed = self._find_invariant_operand()

    def _find_invariant_operand(self) -> Operand | None:
        """The same for all rows, of a row's size, read where rows are written."""
        inner = [*self.layout.reduces, self.layout.inner]
        for o in self.lanes.operands(self.writing.sources):
            moves_along = all(self.layout.moves(o, loop) for loop in inner)
            if (
                moves_along
                and o not in self._list_resident()
                and not any(self.layout.moves(o, r) for r in self.layout.rows)
            ):
                return o
        return None

    def _coming(self) -> list[Operand]:
        """List the operands that only the writing reads, an element for each of the row's, and no register keeps."""
        read = self.lanes.operands(self.writing.sources)
        moving = [o for o in read if self.layout.moves(o, self.layout.inner)]
        return [o for o in moving if o not in self._list_resident() and o != self.fixed]

    @property
    def beside(self) -> float:
        """Bytes that are brought for the writing, for each of the row's."""
        return sum(map(bytes_of, self._coming())) / sum(map(bytes_of, self._list_resident()))

    def _in_shared(self) -> list[Operand]:
        """List the operands in shared memory in their order there: resident ones, then those fetched for the writing."""
        return [*self._by_width(), *sorted(self._coming(), key=lambda o: -bytes_of(o))]

    def _room(self) -> None:
        top = self.top
        sizes = " + ".join(f"sizeof({o.name}_t)" for o in self._list_resident())
        brought = " + ".join(f"sizeof({o.name}_t)" for o in self._coming())
        for line in (
            "constexpr int STEP = GROUP * UNROLL;  // packs of a block's step",
            f"constexpr int STEP_BYTES = STEP * V * (int)({sizes}), BROUGHT_BYTES = STEP * V * (int)({brought or 0});",
            *(_BROUGHT if self._coming() else "constexpr int BROUGHT = 0;").splitlines(),
            *render("reduce/cuda/persistent_row_ring.cuh").splitlines(),
        ):
            top.line(line)
        self._copies(self._in_shared(), hinted=True)
        if self.fixed:
            fits = f"SIZE <= 512 && KEPT * UNROLL * (int)sizeof(ws::Pack<{self.fixed.name}_t, V>) <= 256"
            top.line(f"constexpr int FIXED = {fits} ? KEPT : 0;  // steps of {self.fixed.name} in registers")

    def _ask_ahead(self) -> None:
        """Declare the row rings, write how they are filled, and their first steps."""
        before = "ws::dynamic_shared()"
        for o in self._in_shared():
            kind = f"ws::Pack<{o.name}_t, V>"
            self.w.line(f"{kind}* const {o.name}_kept = ({kind}*)({before});")
            before = f"{o.name}_kept + {'ROOM' if o in self._list_resident() else 'BROUGHT'} * STEP"
        self._bring()
        self._fetch()
        self._read_fixed()

    def _bring(self) -> None:
        """Asks for what the writing of a step reads beside the row: a ring of its own, as far ahead as a row is added."""
        w, coming = self.w, self._coming()
        if not coming:
            return
        w.line("index_t brought_row = team;")
        w.line("int brought = again, turn = 0;  // where that lies which is written next")
        with w.block("const auto bring = [&]", "};"):
            with w.block("if (brought_row < ROWS)"):
                w.line("const index_t row = brought_row;")
                self.layout.pointers(w)
                w.line("const int base = low + slot + brought * STEP, place = turn;")
                with self._items("UNROLL", "high"):
                    for o in coming:
                        self._copy(o, str(any(self.layout.moves(o, r) for r in self.layout.rows)).lower())
                w.line("if (++brought == steps) brought = again, brought_row += teams;")
            w.line(NEXT.format("turn", "BROUGHT"))
        w.line("#pragma unroll 1")
        w.line("for (int i = 0; i < BROUGHT; i++) bring(), ws::copy_commit();")

    def _copy(self, o: Operand, passing: str) -> None:
        to, name = f"{o.name}_kept{HELD.format('place')}", o.name
        copy = f"copy_pack<{name}_copied>(&{to}, {self.lanes.places.element(o)}, {passing});"
        self.w.line(f"if ({name}_copied) {copy}")
        self.w.line(f"else {to} = {self.lanes.read(o)};")

    def _fetch(self) -> None:
        """Asks for the next step of all: a row's, those that are read again, backwards, the next row's."""
        w = self.w
        w.line("index_t asked_row = team;")
        w.line(
            "int asked = 0, place = 0, kept = again % ROOM;  // where the next step goes; where that lies which is written next"
        )
        with w.block("const auto fetch = [&]", "};"):
            with w.block("if (asked_row < ROWS)"):
                w.line("const index_t row = asked_row;")
                self.layout.pointers(w)
                w.line("const int step = asked < steps ? asked : steps + again - 1 - asked;")
                w.line("const int base = low + slot + step * STEP;")
                w.line("const bool passing = asked >= again;  // not read again later")
                with self._items("UNROLL", "high"):
                    for o in self._list_resident():
                        self._copy(o, "passing")
                w.line("if (++asked >= steps + again) asked = 0, asked_row += teams;")
            w.line("ws::copy_commit();")
            w.line("left++;")
            w.line(NEXT.format("place", "ROOM"))
        w.line("#pragma unroll 1")
        w.line("for (int i = 0; i < ROOM; i++) fetch();")

    def _read_fixed(self) -> None:
        if self.fixed is None:
            return
        w, name = self.w, self.fixed.name
        w.line(f"ws::Pack<{name}_t, V> {name}_fixed[FIXED > 0 ? FIXED : 1][UNROLL];")
        w.line("#pragma unroll")
        with w.block("for (int k = 0; k < FIXED; k++)"):
            w.line(f"const {name}_t* const {name}_at = {name};")
            w.line("const int base = low + slot + (again + k) * STEP;")
            with self._items("UNROLL", "high"):
                w.line(f"{name}_fixed[k][u] = {self.lanes.read(self.fixed)};")
