"""Techniques that any program with reductions can use; the families pick from them and order them."""

from __future__ import annotations

from ....codegen.lowering.lower import lower, try_lower
from ....codegen.passes import list_scratch_steps
from ....codegen.program import Program
from ....facts import Facts
from ....records import Graph, Region, Tunable, Unit
from ...family import (
    Bottleneck,
    Shape,
    Technique,
    elements_per_reduction,
    extent_of_group,
    extent_of_rows,
    grain_tunable,
    stream_tunable,
    tunable,
    unit_around,
    vector_tunable,
)
from ..reduction_pattern import ReductionFamily
from .reduction_body import write_reduction


class CppReduction(ReductionFamily):
    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        program = try_lower(graph, region)
        if program is None or not program.reductions:
            return []
        return reduction_techniques(graph, region, facts, program, self.pattern.compound)

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        body = write_reduction(lower(graph, region, technique.single_pass), technique.shape)
        return unit_around(body, region, technique, self.name)


MANY_ROWS = 4  # rows per thread above which whole rows balance well


def reduction_techniques(
    graph: Graph, region: Region, facts: Facts, program: Program, compound: bool
) -> list[Technique]:
    """`compound`: the region has moments or softmax states, which a single pass can find together."""
    techniques = [_passes(graph, region, facts, program)]
    if list_scratch_steps(program):
        techniques.append(_stash(graph, region, facts, program))
    if compound:
        techniques.append(_single(graph, region, facts, program))
    if (
        program.mode == "rows"
        and not _has_outer(program)
        and extent_of_rows(program) < MANY_ROWS * facts.threads
    ):
        techniques.append(_split(graph, region, facts, program, compound))
    return sorted(techniques, key=lambda t: -t.gain)


def _has_outer(program: Program) -> bool:
    return sum(g.reduced for g in program.groups) > 1


def _common(graph: Graph, region: Region, facts: Facts, program: Program) -> list[Tunable]:
    tunables = [vector_tunable(facts), grain_tunable()]
    if program.writes_full:
        tunables.append(stream_tunable(graph, region, facts))
    return tunables


def _loop_tunables(graph: Graph, facts: Facts, program: Program) -> list[Tunable]:
    """Chunks are short enough that a lane adds some 32 floats before it is flushed into double."""
    if program.mode == "rows":
        return [tunable("UNROLL", 4, 1, 2, 8), tunable("CHUNK", 2048, 1024, 8192)]
    block = _block(graph, facts, program)
    return [
        tunable("BLOCK", block, *(b for b in (4, 16, 64) if b != block)),
        tunable("CHUNK", 32, 64, 128),
        tunable("SWEEP", 8, 1, 4),
    ]


def _block(graph: Graph, facts: Facts, program: Program) -> int:
    """Vectors per block: as wide as leaves every thread a block, so that memory is read in long runs;
    narrower where
    the block's columns of all rows must stay in the second-level cache between passes."""
    width = max(4, min(16, facts.vector))
    columns = extent_of_group(program, len(program.groups) - 1)
    rows = extent_of_rows(program) // max(1, columns)
    several = program.passes + program.writes_full > 1
    for block in (64, 32, 16, 8, 4, 2):
        tasks = max(1, rows) * -(-columns // (block * width))
        fits = 4 * block * width * elements_per_reduction(program, graph) <= facts.l2_bytes // 2
        if tasks >= facts.threads and (fits or not several or block <= 4):
            return block
    return 1


def _row_bytes(program: Program, graph: Graph) -> int:
    full = sum(1 for o in program.inputs if any(s.operand == o and s.full for s in program.steps))
    return 4 * max(1, full) * elements_per_reduction(program, graph)


def _bottleneck(program: Program) -> Bottleneck:
    heavy = sum(s.cost for s in program.steps if s.full)
    return "compute" if heavy > 40 else "memory"


def _passes(graph: Graph, region: Region, facts: Facts, program: Program) -> Technique:
    count = program.passes + program.writes_full
    why = f"{count} pass{'es' if count > 1 else ''} over each row, computing what is needed anew each time"
    in_cache = _row_bytes(program, graph) <= facts.l2_bytes // 2
    tunables = (*_common(graph, region, facts, program), *_loop_tunables(graph, facts, program))
    name = f"{count}-pass" if count > 1 else "one-pass"
    return Technique(
        name, why, _bottleneck(program), tunables, Shape(), False, 1.0 if in_cache or count == 1 else 0.6
    )


def _stash(graph: Graph, region: Region, facts: Facts, program: Program) -> Technique:
    step_names = ", ".join(list_scratch_steps(program))
    why = f"keeps {step_names} between passes (in the output's row, or a scratch row) instead of computing it again"
    room = elements_per_reduction(program, graph) * 4 * (1 if program.mode == "rows" else 64)
    gain = 1.1 if room <= facts.l2_bytes // 2 else 0.5
    tunables = (*_common(graph, region, facts, program), *_loop_tunables(graph, facts, program))
    return Technique("row-buffered", why, "compute", tunables, Shape(stash=True), False, gain)


def _single(graph: Graph, region: Region, facts: Facts, program: Program) -> Technique:
    why = "one pass finds both states of the reduction, chunk by chunk from the first-level cache"
    big = _row_bytes(program, graph) > facts.l2_bytes // 2
    loops = _loop_tunables(graph, facts, program)
    loops[1] = (
        tunable("CHUNK", 1024, 512, 2048, 4096) if program.mode == "rows" else tunable("CHUNK", 16, 8, 32, 64)
    )
    tunables = (*_common(graph, region, facts, program), *loops)
    return Technique("single-pass", why, "memory", tunables, Shape(), True, 1.3 if big else 0.8)


def _split(graph: Graph, region: Region, facts: Facts, program: Program, compound: bool) -> Technique:
    why = "few long rows: each is cut into parts for the threads, whose results merge in a fixed order"
    few_rows = extent_of_rows(program) < facts.threads
    loops = [
        tunable("UNROLL", 4, 2, 8),
        tunable("CHUNK", 2048, 1024, 8192),
        tunable("SPLIT", facts.threads, *_splits(facts.threads)),
    ]
    if compound:
        loops[1] = tunable("CHUNK", 1024, 2048, 4096)
    tunables = (*_common(graph, region, facts, program), *loops)
    return Technique(
        "split-row", why, "memory", tunables, Shape(split=True), compound, 2.0 if few_rows else 0.9
    )


def _splits(threads: int) -> tuple[int, ...]:
    return tuple(threads * k for k in (2, 4) if threads * k <= 256)
