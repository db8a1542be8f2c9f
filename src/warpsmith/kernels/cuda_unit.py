"""What the CUDA families share: tunables sized for a GPU, and a unit around what an emitter wrote.

Sizes are for a GPU of about a hundred multiprocessors; they decide defaults and what is offered first, never what is right.
"""

from __future__ import annotations

from ..codegen.cuda.cuda_source import CudaBody, cuda_unit_file
from ..codegen.program import Program, operand_names
from ..hardware import Hardware
from ..records import Graph, Region, Tunable, Unit
from ..targets.front_matter import FrontMatter
from .family import Technique, tunable

WIDTH = {
    "float64": 8,
    "int64": 8,
    "float32": 4,
    "int32": 4,
    "bfloat16": 2,
    "float16": 2,
    "int16": 2,
}  # else 1


def cuda_unit(body: CudaBody, region: Region, technique: Technique, family: str) -> Unit:
    # The front matter holds the technique's own defaults, so that variants of its values share one source text.
    defaults = tuple(t.model_copy(update={"value": t.domain[0]}) for t in technique.tunables)
    matter = FrontMatter(
        family=family,
        technique=technique.name,
        tunables=defaults,
        requires=body.requires,
        tensor_maps=body.maps,
    )
    source = cuda_unit_file(body, matter, technique.why, list(operand_names(region).values()))
    return Unit(
        region=region, language="cuda", source=source, tunables=technique.tunables, requires=body.requires, family=family,
        technique=technique.name,
    )  # fmt: skip


def in_load(dtype: str) -> int:
    """Elements in 16 bytes, the most that a thread loads at once."""
    return 16 // WIDTH.get(dtype, 1)


def pack(program: Program, graph: Graph) -> int:
    """Elements in 16 bytes of the operand that moves most."""
    return in_load(max(program.operands, key=lambda o: graph.specs[o.value].nbytes).dtype)


def power(n: float) -> int:
    """The least power of two that is no less."""
    result = 1
    while result < n:
        result *= 2
    return result


def smem_kib(hardware: Hardware) -> tuple[int, ...]:
    """Sizes of shared memory that a block may keep a row in, beside its static one; the smallest is there without asking."""
    return tuple(kib for kib in (48, 96, 160, 216) if kib << 10 <= hardware.smem_bytes_per_block)


def is_streamed(graph: Graph, region: Region, hardware: Hardware) -> bool:
    """Tell whether the outputs are too large for the L2 cache to be of use."""
    return sum(graph.specs[v].nbytes for v in region.outputs) > hardware.streamed_bytes


def stream(graph: Graph, region: Region, hardware: Hardware) -> Tunable:
    """Return the tunable of evict-first stores."""
    streamed = is_streamed(graph, region, hardware)
    return tunable("NT", int(streamed), int(not streamed))
