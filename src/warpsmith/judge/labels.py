"""Labels of a win: from a candidate's units and their evidence to the labels of its verdict.

`kernel` (generated code does the work), `algorithmic` (fewer operations than the reference, or other ones of the
library: allowed, counted apart), `library` (no generated code: only library calls); `general` or `specialised`; `deterministic` or
`nondeterministic`; the precision class.
"""

from __future__ import annotations

from ..records import Candidate, Graph, Limit, Unit
from .layout import FLOATS

ALGEBRAIC = "algebraic"  # a technique so named does fewer operations than the reference
UNIT_CLOCK_SLACK = 1.05  # the arithmetic peak is a measurement, too


def labels(
    candidate: Candidate, graph: Graph, limit: Limit | None, unit_us: dict[str, float]
) -> tuple[str, ...]:
    """In a fixed order: kind, generality, determinism, precision."""
    units = candidate.units
    if not units:
        kind = "library"
    elif any(not u.compiled or _fewer_operations(u, graph, limit, unit_us.get(u.region.id)) for u in units):
        kind = "algorithmic"
    else:
        kind = "kernel"
    return (
        kind,
        "specialised" if any(u.requires for u in units) else "general",
        "nondeterministic" if any(u.atomics for u in units) else "deterministic",
        precision(graph),
    )


def _fewer_operations(unit: Unit, graph: Graph, limit: Limit | None, microseconds: float | None) -> bool:
    """Declared, or shown: the reference's operations take longer on this machine."""
    if ALGEBRAIC in unit.technique:
        return True
    if limit is None or not microseconds or not limit.flops_per_second:
        return False
    flops = sum(graph.by_name[n].flops for n in unit.region.nodes if n in graph.by_name)
    return flops / limit.flops_per_second > UNIT_CLOCK_SLACK * microseconds * 1e-6


def precision(graph: Graph) -> str:
    """The dtype the reference computes in: results were held to it by the oracle."""
    dtypes = [i.spec.dtype for i in graph.inputs if i.spec.dtype in FLOATS]
    return max(dtypes, key=dtypes.count) if dtypes else "integer"
