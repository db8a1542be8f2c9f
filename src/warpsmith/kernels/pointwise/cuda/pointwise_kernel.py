"""Pointwise programs on a GPU: a thread takes UNROLL packs, whose loads are all under way before the first is used.

Neighbouring threads take neighbouring packs of a row; where an operand has its neighbours from row to row (a transposition), they take
TILE_ROWS rows at one place first, so that a warp's accesses to it are of neighbours, too.
"""

from __future__ import annotations

from ....codegen.cuda.cuda_source import CudaBody, Launch, kernel_head
from ....codegen.cuda.lanes import CudaLayout, Lanes, runs_along_rows
from ....codegen.program import Program
from ....codegen.writer import Writer

TASK = (
    "[[maybe_unused]] const index_t row = all / (index_t)PACKS;",
    "const index_t task = all % (index_t)PACKS;",
)
TILED_TASK = (
    "const index_t tile = all / (index_t)(TILE * PACKS), inside = all % (index_t)(TILE * PACKS);",
    "const index_t row = tile * (index_t)TILE + inside % (index_t)TILE, task = inside / (index_t)TILE;",
)


def pointwise_body(program: Program) -> CudaBody:
    layout, top, w = CudaLayout(program), Writer(), Writer()
    layout.declare(top)
    lanes = Lanes(program, layout, w)
    top.line("constexpr int V = ws::widest(COLUMNS, VEC);")
    top.line("constexpr int64_t PACKS = COLUMNS / V, TASKS = ROWS * PACKS;")
    top.line("using index_t = ws::Int<TASKS * V + BLOCK * UNROLL * V>;")
    tiled = runs_along_rows(program)
    if tiled:
        top.line(
            "constexpr int64_t TILE = ROWS % TILE_ROWS == 0 ? TILE_ROWS : 1;  // rows that neighbouring threads take first"
        )
    layout.declare_aligned(top, program.operands)
    names = [n for _, n in program.outputs]
    read = lanes.operands(names)
    with w.block(kernel_head("pointwise", program, "BLOCK")):
        lanes.packs(read, "UNROLL")
        for phase in ("read", "write") if read else ("write",):
            w.line("#pragma unroll")
            with w.block("for (int u = 0; u < UNROLL; u++)"):
                w.line(
                    "const index_t all = (index_t)blockIdx.x * (BLOCK * UNROLL) + u * BLOCK + threadIdx.x;"
                )
                w.line("if (all >= TASKS) continue;")
                for line in TILED_TASK if tiled else TASK:
                    w.line(line)
                layout.pointers(w)
                layout.split_task(w, "index_t")
                if phase == "read":
                    for operand in read:
                        w.line(f"{operand.name}_pack[u] = {lanes.read(operand)};")
                else:
                    lanes.write_full(program.outputs)
    launch = Launch("pointwise", "ws::ceil_div(TASKS, (int64_t)BLOCK * UNROLL)", "BLOCK")
    return CudaBody(top, w, (launch,))
