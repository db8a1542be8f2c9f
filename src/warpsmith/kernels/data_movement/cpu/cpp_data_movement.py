"""Data movement in C++: kernels in up to two shapes, of those of `index_maps/map_source.py`."""

from __future__ import annotations

from ....codegen.cpp_source import Body
from ....codegen.program import Unsupported
from ....facts import Facts
from ....progress import counted
from ....records import Graph, Region, Unit
from ...family import Technique, grain_tunable, stream_tunable, tunable, unit_around, vector_tunable
from ..data_movement_pattern import DataMovementPattern
from ..index_maps.map_helpers import helpers
from ..index_maps.map_source import Interleaved, Runs, Tiles
from ..index_maps.moves import mapping_of
from ..index_maps.pull import Mapping

SHAPES: dict[str, type[Runs]] = {"tiles": Tiles, "interleaved": Interleaved, "runs": Runs}


class CppDataMovement(DataMovementPattern):
    def check_mapping(self, mapping: Mapping) -> None:
        Runs(mapping).write()

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        try:
            mapping = mapping_of(graph, region)
        except Unsupported:
            return []
        techniques = []
        for name, shape in SHAPES.items():
            try:
                shape(mapping).write()
            except Unsupported:
                continue
            techniques.append(_technique(name, graph, region, facts))
            if name == "interleaved":  # rows of a few elements lose by an order of magnitude
                break
        return techniques

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        """Raises Unsupported."""
        shape = SHAPES[technique.name](mapping_of(graph, region))
        shape.write()
        constants = shape.constants()
        body = Body(shape.w, before=helpers(constants + shape.w.text()) + "\n" + constants)
        return unit_around(body, region, technique, self.name)


def _technique(name: str, graph: Graph, region: Region, facts: Facts) -> Technique:
    common = (vector_tunable(facts), stream_tunable(graph, region, facts), grain_tunable())
    unroll = tunable("UNROLL", 2, 1, 4)
    operations = counted(len(region.nodes), "operation")
    if name == "tiles":
        why = f"{operations} in one pass over tiles, which are transposed in registers: memory is read and written in runs"
        tile_tunables = (tunable("TILE", 64, 32, 128), tunable("STRIP", 32, 16, 64))
        return Technique(name, why, "memory", (*tile_tunables, unroll, *common))
    if name == "interleaved":
        why = f"{operations} in one pass: lanes run along the outer loop, the short inner one is woven in at the end"
        return Technique(name, why, "memory", (tunable("TILE", 256, 64, 1024), unroll, *common))
    why = f"{operations} in one pass: each element is fetched from where it comes from, branches are outside the loops"
    return Technique(name, why, "memory", (tunable("TILE", 8192, 2048, 65536), unroll, *common), gain=0.8)
