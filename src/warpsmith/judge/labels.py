"""Labels of a win: from a candidate's units and their evidence to the labels of its verdict.

`kernel` (generated code does the work), `algorithmic` (fewer operations than the reference: allowed, counted apart), `library` (the
reference's operations in other calls or layouts of the library, in some part of the candidate or in all of it: counted apart, too),
`unexplained` (generated code that is faster than the reference's arithmetic at the measured peak and declares no fewer operations: no win);
`general` or `specialised`; `deterministic` or `nondeterministic`; the precision class. Units declare by their techniques' names what they do;
one without code that declares nothing is algorithmic. A candidate has the least label of its units.
"""

from __future__ import annotations

from ..records import UNEXPLAINED, Candidate, Graph, Limit, Unit
from .layout import FLOATS

ALGEBRAIC = "algebraic"  # a technique so named does fewer operations than the reference
LIBRARY = "library-"  # a technique whose name begins so does the reference's operations in other calls of the library
UNIT_CLOCK_SLACK = 1.05  # the arithmetic peak is a measurement, too


def labels(
    candidate: Candidate, graph: Graph, limit: Limit | None, unit_us: dict[str, float]
) -> tuple[str, ...]:
    """In a fixed order: kind, generality, determinism, precision."""
    units = candidate.units
    if not units:
        kind = "library"
    elif explain_doubt(candidate, graph, limit, unit_us):
        kind = UNEXPLAINED
    elif any(_does_fewer(u) for u in units):
        kind = "algorithmic"
    elif not all(u.compiled for u in units):
        kind = "library"
    else:
        kind = "kernel"
    return (
        kind,
        "specialised" if any(u.requires for u in units) else "general",
        "nondeterministic" if any(u.atomics for u in units) else "deterministic",
        precision(graph),
    )


def _does_fewer(unit: Unit) -> bool:
    """Tell whether the unit does fewer operations by its declaration, or has no code and declares nothing."""
    undeclared = not unit.compiled and not unit.technique.startswith(LIBRARY)
    return undeclared or ALGEBRAIC in unit.technique


def explain_doubt(candidate: Candidate, graph: Graph, limit: Limit | None, unit_us: dict[str, float]) -> str:
    """Say which unit is faster than arithmetic allows without declaring fewer operations; empty when none is."""
    for unit in candidate.compiled:
        microseconds = unit_us.get(unit.region.id, 0.0)
        flops = sum(graph.by_name[n].flops for n in unit.region.nodes if n in graph.by_name)
        if ALGEBRAIC not in unit.technique and is_too_fast(flops, limit, microseconds):
            assert limit is not None
            return explain_too_fast(flops, limit, microseconds)
    return ""


def is_too_fast(flops: int, limit: Limit | None, microseconds: float) -> bool:
    """Return whether the reference's operations take longer on this machine at the measured peak."""
    if limit is None or not microseconds or not limit.flops_per_second:
        return False
    return flops / limit.flops_per_second > UNIT_CLOCK_SLACK * microseconds * 1e-6


def explain_too_fast(flops: int, limit: Limit, microseconds: float) -> str:
    floor_us = flops / limit.flops_per_second * 1e6
    return (
        f"unexplained: {microseconds:.1f} us, and the reference's arithmetic takes {floor_us:.1f} us at this machine's measured peak; "
        "fewer operations explain it, or a fault of the measurement"
    )


def precision(graph: Graph) -> str:
    """The dtype the reference computes in: results were held to it by the oracle."""
    dtypes = [i.spec.dtype for i in graph.inputs if i.spec.dtype in FLOATS]
    return max(dtypes, key=dtypes.count) if dtypes else "integer"
