"""Data movement on a GPU: one kernel that fetches each output element from where it comes from."""

from __future__ import annotations

from ....codegen.program import Unsupported
from ....facts import Facts
from ....progress import counted
from ....records import Graph, Region, Unit
from ...cuda_unit import cuda_unit, in_load, stream
from ...elementwise_schedule import ElementwiseSchedule
from ...family import Technique, tunable
from ..data_movement_pattern import SLOW, DataMovementPattern
from ..index_maps.moves import mapping_of
from ..index_maps.pull import Mapping
from .gather_kernel import GatherKernel

WARP = 32  # threads whose accesses are one


class CudaDataMovement(DataMovementPattern):
    # ATen's copy into another layout moves an element a thread: 8 us for 10 MB on an H200 (windows of a Swin layer, `dependent_launch_gather.json`).
    # Its padding by a constant is a fill of everything, and such a copy.
    slow = SLOW | {"clone", "constant_pad_nd"}

    def check_mapping(self, mapping: Mapping) -> None:
        GatherKernel(mapping).body()

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        try:
            kernel = GatherKernel(mapping_of(graph, region))
            kernel.body()
        except Unsupported:
            return []
        tiled = kernel.across is not None
        schedule = ElementwiseSchedule(tile_rows=WARP) if tiled else ElementwiseSchedule()
        width = in_load(graph.specs[region.outputs[0]].dtype)
        tunables = (
            *schedule.tunables(unroll=(2, 4), block=(256, 512), tile_rows=(16, 1) if tiled else ()),
            tunable("VEC", width, *(v for v in (width // 2, 2 * width) if v >= 1)),
            stream(graph, region, facts.hardware),
        )
        why = f"{counted(len(region.nodes), 'operation')} in one pass: each element is fetched from where it comes from, 16 bytes a store"
        return [Technique("vectorized-gather", why, "memory", tunables)]

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        """Raises Unsupported."""
        return cuda_unit(GatherKernel(mapping_of(graph, region)).body(), region, technique, self.name)
