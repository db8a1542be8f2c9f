"""What the CUDA families share: tunables sized for a GPU, and a unit around what an emitter wrote.

Sizes are for a GPU of about a hundred multiprocessors; they decide defaults and what is offered first, never what is right.
"""

from __future__ import annotations

from ....records import Graph, Region, Tunable, Unit
from ....targets.front_matter import FrontMatter
from ..emit_cuda.source import CudaBody, cuda_unit_file
from ..families.base import Technique, tunable
from ..program import Program, operand_names

MULTIPROCESSORS = 128
SHARED_KIB = (48, 96, 160, 216)  # of a block: always, and what sm_80 and sm_90 allow at most
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
    matter = FrontMatter(family=family, technique=technique.name, tunables=defaults, flags=())
    source = cuda_unit_file(body, matter, technique.why, list(operand_names(region).values()))
    return Unit(
        region=region, language="cuda", source=source, tunables=technique.tunables, family=family,
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
    found = 1
    while found < n:
        found *= 2
    return found


def unroll(narrow: bool) -> Tunable:
    """Packs of a thread under way at once; more of them where a pack is one element."""
    return tunable("UNROLL", 8, 4, 16) if narrow else tunable("UNROLL", 4, 2, 8)


def ahead() -> Tunable:
    """Times UNROLL packs that are under way to shared memory before they are used."""
    return tunable("AHEAD", 4, 2, 8)
