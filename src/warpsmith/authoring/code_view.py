"""What the compiler made of a candidate, and what the hardware counted: its units' machine code beside its parent's.

In: a candidate, its parent, a target. Out: a view. Nothing runs for it, but for the counters of a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..profile import compiler_report
from ..profile.disassembly import disassemble
from ..profile.observation import Observation, not_available
from ..records import Candidate, Task, Unit
from ..targets.cuda_toolkit import toolkit
from ..targets.target import Target
from .author_views import CodeView, UnitCode

MAX_NOTES = 8


def view_code(
    candidate: Candidate,
    parent: Candidate | None,
    task: Task,
    target: Target,
    counters: Iterable[Observation] = (),
) -> CodeView:
    """`counters`: of the hardware, each of the unit whose region it names. Raises ToolchainError."""
    counted = {observation.subject: observation for observation in counters}
    earlier = {u.region.id: u for u in parent.compiled} if parent is not None else {}
    units = []
    for unit in candidate.compiled:
        report, hot_loop = _observe(unit, task, target)
        before = earlier.get(unit.region.id)
        observed = counted.get(unit.region.id)
        units.append(
            UnitCode(
                nodes=unit.region.nodes, available=report.available, reason=report.reason, metrics=report.metrics,
                parent=_observe(before, task, target)[0].metrics if before is not None else {}, hot_loop=hot_loop,
                counters=observed.metrics if observed is not None else {},
                notes=(*report.notes[:MAX_NOTES], *([observed.reason] if observed is not None and observed.reason else [])),
            )
        )  # fmt: skip
    return CodeView(
        candidate=candidate.id, compared_with=parent.id if parent is not None else "", units=tuple(units)
    )


def _observe(unit: Unit, task: Task, target: Target) -> tuple[Observation, tuple[str, ...]]:
    """Return what the compiler's observer says of a unit at the main shapes, and its hot loop."""
    build = target.build(unit, task.graph, task.main.name)
    if not build.ok:
        first = next((d.message for d in build.diagnostics if d.kind != "warning"), "no reason is given")
        return not_available(compiler_report.NAME, f"it does not build: {first}", unit.region.id), ()
    cuobjdump = toolkit().cuobjdump if unit.language == "cuda" else None
    report = compiler_report.observe(unit, build, cuobjdump)
    code = disassemble(build.library) if unit.language != "cuda" else ""
    return report, () if isinstance(code, str) else code.hot_loop
