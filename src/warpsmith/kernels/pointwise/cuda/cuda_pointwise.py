"""Pointwise chains on a GPU, from the lowering that the C++ family shares."""

from __future__ import annotations

from ....codegen.cuda.lanes import runs_along_rows
from ....codegen.lowering.lower import lower, try_lower
from ....facts import Facts
from ....progress import counted
from ....records import Graph, Region, Unit
from ...cuda_tunables import bottleneck_of, list_memory_tunables
from ...cuda_unit import cuda_unit
from ...elementwise_schedule import ElementwiseSchedule
from ...family import Technique
from ..pointwise_pattern import PointwisePattern
from .pointwise_kernel import pointwise_body

WARP = 32  # threads whose accesses are one


class CudaPointwise(PointwisePattern):
    """One pass over any chain that the C++ family covers."""

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        program = try_lower(graph, region)
        if program is None or program.mode != "pointwise":
            return []
        across = runs_along_rows(program)
        schedule = ElementwiseSchedule(tile_rows=WARP) if across else ElementwiseSchedule()
        tunables = (
            *schedule.tunables(unroll=(2, 4), block=(256, 512), tile_rows=(16, 1) if across else ()),
            *list_memory_tunables(graph, region, program, facts.hardware),
        )  # fmt: skip
        why = f"{counted(len(region.nodes), 'operation')} in one pass: 16 bytes a load, all loads of a thread under way at once"
        return [Technique("fused", why, bottleneck_of(program), tunables)]

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        return cuda_unit(pointwise_body(lower(graph, region)), region, technique, self.name)
