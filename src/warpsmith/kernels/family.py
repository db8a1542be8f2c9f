"""A family of kernels: which nodes it grows regions around, which techniques it offers for one, and how it writes them.

A technique is a schedule with a name. A folder's `<folder>_families.FAMILIES` is the only list of its families.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Literal, Protocol

from ..codegen.cpp_source import Body, unit_file
from ..codegen.program import Program, operand_names
from ..facts import Facts
from ..records import Graph, Node, Region, Tunable, Unit
from ..targets.front_matter import FrontMatter

FLAGS = ("-fno-exceptions",)  # a parallel region would else need the C++ runtime, which a unit may not import
Bottleneck = Literal["memory", "compute", "overhead", "latency", "unknown"]


@dataclass(frozen=True)
class Shape:
    """The structural choices of a technique. `single_pass` was made when the program was lowered."""

    stash: bool = False  # keep dear intermediate values in a scratch row instead of computing them again
    split: bool = False  # parts of rows to threads, in two stages: for few, long rows


PLAIN = Shape()


@dataclass(frozen=True)
class Technique:
    """A way to write a region. Tunables hold the default first chosen; `gain` ranks what was not measured
    yet.
    """

    name: str
    why: str  # one line, for people
    bottleneck: Bottleneck
    tunables: tuple[Tunable, ...]
    shape: Shape = PLAIN
    single_pass: bool = False
    gain: float = 1.0  # prior: relative to the other techniques of the region
    us: float | None = None  # what it will take, where the region's limit says nothing of it

    def at(self, values: dict[str, int]) -> Technique:
        """The same technique with other values of its tunables; names it lacks are ignored."""
        chosen = tuple(t.model_copy(update={"value": values.get(t.name, t.value)}) for t in self.tunables)
        return replace(self, tunables=chosen)


class Family(Protocol):
    @property
    def name(self) -> str: ...

    def covers(self, graph: Graph, node: Node) -> bool:
        """Tell whether the node is one that this family grows a region around."""
        ...

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        """Most promising first; empty when the region is not for this family."""
        ...

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit: ...


@dataclass(frozen=True)
class Listed:
    """A family in its folder's list. Where several cover a node, the one of the lowest rank has it: rank what is more specific lower."""

    target: str  # "cpu" or "cuda"
    rank: int
    family: Family


def unit_around(body: Body, region: Region, technique: Technique, family: str) -> Unit:
    """The unit whose function has these lines."""
    # The front matter holds the technique's own defaults, so that variants of its values share one source
    # text.
    defaults = tuple(t.model_copy(update={"value": t.domain[0]}) for t in technique.tunables)
    matter = FrontMatter(family=family, technique=technique.name, tunables=defaults, flags=FLAGS)
    source = unit_file(body, matter, technique.why, list(operand_names(region).values()))
    return Unit(
        region=region, language="c++", source=source, tunables=technique.tunables, flags=FLAGS, family=family,
        technique=technique.name,
    )  # fmt: skip


def tunable(name: str, first: int, *others: int) -> Tunable:
    """A tunable whose default is `first`."""
    return Tunable(name=name, domain=tuple(dict.fromkeys((first, *others))), value=first)


def vector_tunable(facts: Facts) -> Tunable:
    width = max(4, min(16, facts.vector))
    return tunable("VEC", width, *(v for v in (4, 8, 16) if width // 2 <= v <= 16))


def register_tunable(facts: Facts) -> Tunable:
    """VEC for loops that keep tiles of vectors in registers: no wider than those are."""
    wide = vector_tunable(facts)
    return tunable("VEC", wide.value, *(v for v in wide.domain if v < wide.value))


def vectors_beside(rows: int, facts: Facts) -> int:
    """Vectors that a tile of so many rows may be wide: its sums, a row of them and a factor fill all registers but one."""
    return max(1, (facts.registers - 2) // (rows + 1))


def grain_tunable() -> Tunable:
    """Elements below which no further thread is woken."""
    return tunable("GRAIN", 16384, 4096, 65536)


def stream_tunable(graph: Graph, region: Region, facts: Facts) -> Tunable:
    """Non-temporal stores save reading lines that are overwritten whole; they pay for outputs beyond the cores' own caches."""
    written = sum(graph.specs[v].nbytes for v in region.outputs)
    return tunable("NT", 1, 0) if written > 2 * facts.threads * facts.l2_bytes else tunable("NT", 0, 1)


def extent_of_group(program: Program, index: int) -> int:
    """Length of one loop at the main variant."""
    operands = [*program.inputs, *(o for o, _ in program.outputs)]
    sizes = [
        max((o.shape[o.axes.index(a)] for o in operands if a in o.axes), default=1)
        for a in program.groups[index].axes
    ]
    return prod(sizes)


def elements_per_reduction(program: Program, graph: Graph) -> int:
    """At the main variant."""
    return prod(extent_of_group(program, i) for i, g in enumerate(program.groups) if g.reduced)


def extent_of_rows(program: Program) -> int:
    """Independent reductions at the main variant: rows, or columns times rows."""
    return prod(extent_of_group(program, i) for i, g in enumerate(program.groups) if not g.reduced)
