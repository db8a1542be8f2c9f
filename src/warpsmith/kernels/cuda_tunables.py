"""What the CUDA kernels of lowered programs share: tunables of loads and stores, and what bounds a program."""

from __future__ import annotations

from ..codegen.cuda.lanes import writes_across
from ..codegen.program import Program
from ..hardware import Hardware
from ..records import Graph, Region, Tunable
from .cuda_unit import pack, stream
from .family import Bottleneck, tunable


def list_memory_tunables(graph: Graph, region: Region, program: Program, hardware: Hardware) -> list[Tunable]:
    """List the tunables of memory-bound kernels: elements a load, and evict-first stores."""
    tunables = []
    if program.mode != "columns" or writes_across(program):
        width = pack(program, graph)
        tunables.append(tunable("VEC", width, *(v for v in (width // 2, 2 * width) if v >= 1)))
    return [*tunables, stream(graph, region, hardware)]


def bottleneck_of(program: Program) -> Bottleneck:
    """A GPU does some 50 operations in the time of one float's way to memory and back."""
    return "compute" if sum(s.cost for s in program.steps if s.full) > 200 else "memory"
