"""Rows that one block's shared memory cannot hold: a cluster of blocks keeps each, so that every element is read once.

The blocks of a cluster merge their states through each other's shared memory (compute capability 9.0 on). Built for an
older GPU, the cluster is one block, and what it cannot keep is read again.
"""

from __future__ import annotations

from ..emit.passes import Pass
from ..program import Program
from .reducing import Reducing
from .threads import Threads

CLUSTERS = """\
// Rows are shared by clusters of PARTS blocks.
#if __CUDA_ARCH_LIST__ >= 900
#include <cooperative_groups.h>
constexpr int PARTS = CLUSTER;
#define BLOCKS_MEET __cluster_dims__(PARTS, 1, 1)
// Clusters of more than eight blocks are not portable and have to be allowed; an H100 has them.
#define ALLOW(kernel) cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, PARTS > 8)
#else
constexpr int PARTS = 1;
#define BLOCKS_MEET
#define ALLOW(kernel) (void)0
#endif
"""

_MERGING = """\
#include "warpsmith_cuda_meeting.h"
constexpr int SHARE = ws::ceil_div(PACKS, PARTS);
// One state out of those of all threads of a row.
template <class State>
__device__ __forceinline__ void merge_all(State& state) {
  __shared__ unsigned mine[sizeof(State) / 4];
  ws::near_merge<GROUP, PARTS>(state, mine);
  ws::meet_cluster();  // a block's memory must outlive what others read of it
}
"""


class ClusterThreads(Threads):
    def parting(self) -> str:
        return CLUSTERS + _MERGING


class Cluster(Reducing):
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

    def _streamed(self, p: Pass, begin: str = "low + slot", end: str = "high") -> None:
        super()._streamed(p, begin, end)

    def _number(self) -> str:
        return "task - low"
