"""Which thread takes what of a reduction: the constants and first lines of its kernels, and how states meet.

Rows (the innermost loop is reduced): GROUP neighbouring threads share a row and walk it side by side, pack by pack;
up to a warp, several rows to a block, else one. Columns (the innermost loop is kept): BLOCK_COLUMNS neighbouring columns to a
block, GROUP threads above each other for every one. Threads without a row or column of their own do somebody else's
once more and store nothing, so that all take part in merging.
"""

from __future__ import annotations

from ..program import Program
from ..templates import render
from ..writer import Writer
from .lanes import CudaLayout


class Threads:
    """`parts`: blocks that share a row or a bundle of columns, as C++; "1": none do."""

    def __init__(self, program: Program, layout: CudaLayout, parts: str = "1") -> None:
        self.program, self.layout, self.parts = program, layout, parts
        self.columns = program.mode == "columns"

    def declare(self, w: Writer) -> None:
        """V, PACKS, GROUP, SIZE (threads of a block), BLOCKS."""
        self.layout.emit_ragged_test(w)
        w.line(f"constexpr int V = {self.layout.width()};")
        w.line('static_assert(REDUCE < 0x7fffffff, "requires: reductions of less than 2^31 elements");')
        w.line("constexpr int PACKS = (int)(REDUCE / V);")
        if self.columns:
            w.line("constexpr int SIZE = BLOCK_COLUMNS * GROUP;")
            w.line("constexpr int64_t ACROSS = ws::ceil_div(COLUMNS, (int64_t)BLOCK_COLUMNS);")
            w.line("constexpr int64_t BUNDLES = ROWS * ACROSS;")
            w.line("using index_t = ws::Int<ROWS>;")
        else:
            w.line(
                "constexpr int SIZE = GROUP > 32 ? GROUP : BLOCK, TOGETHER = SIZE / GROUP;  // rows of a block"
            )
            w.line("constexpr int64_t BUNDLES = ws::ceil_div(ROWS, (int64_t)TOGETHER);")
            w.line("using index_t = ws::Int<ROWS + 1024>;")
        for line in self.parting().splitlines():
            w.line(line)

    def parting(self) -> str:
        """Emit how blocks share rows, and the merge of all threads' states of a row."""
        how = "ws::group_merge<GROUP>(state)"
        if self.columns:
            how = "ws::column_merge<BLOCK_COLUMNS, GROUP>(state, threadIdx.x / BLOCK_COLUMNS, threadIdx.x % BLOCK_COLUMNS)"
        shared = ""
        if self.parts != "1":
            shared = f"constexpr int PARTS = {self.parts}, SHARE = ws::ceil_div(PACKS, PARTS);\n"
        return shared + render("reduce/cuda/thread_group_merge.cuh", merge=how)

    @property
    def blocks(self) -> str:
        return "BUNDLES" if self.parts == "1" else "BUNDLES * PARTS"

    def place(self, w: Writer, part: str = "") -> None:
        """row, col, slot, inside, and `part`, which of the row's this block does. "forwards" and "backwards": blocks that
        run together do the same part of different rows, which may share operands, the last parts last or first. "cluster": neighbouring blocks share a row."""
        block = "blockIdx.x"
        if part:
            number, bundle = "(int)(blockIdx.x / (unsigned)BUNDLES)", "blockIdx.x % (unsigned)BUNDLES"
            if part == "cluster":
                number, bundle = "(int)(blockIdx.x % (unsigned)PARTS)", "blockIdx.x / (unsigned)PARTS"
            w.line(f"const int part = {f'PARTS - 1 - {number}' if part == 'backwards' else number};")
            w.line(f"const unsigned bundle = {bundle};")
            block = "bundle"
        if self.columns:
            w.line(f"[[maybe_unused]] const index_t row = {block} / (unsigned)ACROSS;")
            w.line(
                f"const int64_t column = (int64_t)({block} % (unsigned)ACROSS) * BLOCK_COLUMNS + threadIdx.x % BLOCK_COLUMNS;"
            )
            w.line("const bool inside = column < COLUMNS;")
            w.line("[[maybe_unused]] const int64_t col = inside ? column : COLUMNS - 1;")
            w.line("const int slot = threadIdx.x / BLOCK_COLUMNS;")
        else:
            w.line(f"const index_t mine = (index_t){block} * TOGETHER + threadIdx.x / GROUP;")
            w.line("const bool inside = mine < ROWS;")
            w.line("[[maybe_unused]] const index_t row = inside ? mine : (index_t)(ROWS - 1);")
            w.line("const int slot = threadIdx.x % GROUP;")
        self.layout.pointers(w)
        self.layout.cut(w)

    @property
    def number(self) -> str:
        """Return the number of a thread's row or column among all."""
        return "(int64_t)row * COLUMNS + col" if self.columns else "(int64_t)row"

    def room(self, words: int) -> str:
        """Bytes of all parts' states, in terms of task.h and SPLIT."""
        row_count = [f"(uint64_t){self.layout.expression('ROWS')}"]
        if self.columns:
            row_count.append(self.layout.expression("COLUMNS"))
        return " * ".join([*row_count, "SPLIT", str(4 * words)])

    def locate_state(self, part: str, before: int, words: int) -> tuple[str, str]:
        """Return where a part's state lies in the workspace, `before` words after the first of its row's part, of `words`
        in all; and how far apart its words are."""
        at = f"((int64_t)row * PARTS + {part}) * {words} + {before}"
        return (f"({at}) * COLUMNS + col", "COLUMNS") if self.columns else (at, "1")
