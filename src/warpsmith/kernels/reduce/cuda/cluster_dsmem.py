"""Rows that one block's shared memory cannot hold: a cluster of blocks keeps each, so that every element is read once.

The blocks of a cluster merge their states through each other's shared memory (compute capability 9.0 on). Built for an
older GPU, the cluster is one block, and what it cannot keep is read again.
"""

from __future__ import annotations

from ....codegen.cuda.threads import Threads
from ....codegen.passes import Pass
from ....codegen.program import Program
from ....codegen.templates import render
from .row_reduction import RowReduction


def render_cluster_launch() -> str:
    """Rows are shared by clusters of PARTS blocks."""
    return render("reduce/cuda/cluster_launch.cuh")


class ClusterThreads(Threads):
    def parting(self) -> str:
        return render_cluster_launch() + render("reduce/cuda/cluster_merge.cuh")


class ClusterReduction(RowReduction):
    def __init__(self, program: Program) -> None:
        super().__init__(program, "shared")
        self.threads = ClusterThreads(program, self.layout, parts="CLUSTER")
        self.totals.threads = self.threads
        self.attribute, self.share, self.setup = "BLOCKS_MEET ", "SHARE", "ALLOW(rows);"
        self.who, self.ends = "slot == 0 && inside && part == 0", "RAGGED && part == 0"

    def _place(self) -> None:
        self.threads.place(self.w, "cluster")
        end = self.layout.end
        self.w.line(f"const int low = part * SHARE, high = low + SHARE < {end} ? low + SHARE : {end};")

    def _emit_streaming_loop(self, p: Pass, begin: str = "low + slot", end: str = "high") -> None:
        super()._emit_streaming_loop(p, begin, end)

    def _number(self) -> str:
        return "task - low"
