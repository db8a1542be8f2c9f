"""What each pass over the data computes: which reductions, from which steps, and what is worth keeping for
later passes.
"""

from __future__ import annotations

from dataclasses import dataclass

from .program import Expr, Program

WORTH_KEEPING = (
    8  # instructions per element above which reading a value back is cheaper than computing it again
)


@dataclass(frozen=True)
class Pass:
    """One walk over the data. `number` 1 … passes reduces; the one after them writes the full outputs."""

    number: int
    reductions: tuple[Expr, ...]  # first parts only
    sources: tuple[str, ...]  # steps that must be computed in lanes

    @property
    def last(self) -> bool:
        return not self.reductions

    @property
    def headline(self) -> str:
        """Return the pass's summary as a comment in C++."""
        work = "write" if self.last else ", ".join(describe(s) for s in self.reductions)
        return f"// Pass {self.number}: {work}."


def passes(program: Program) -> list[Pass]:
    planned: list[Pass] = []
    for stage in range(1, program.passes + 1):
        reductions = tuple(s for s in program.reductions if s.stage == stage and s.part == 0)
        planned.append(Pass(stage, reductions, tuple(dict.fromkeys(s.args[0] for s in reductions))))
    full = tuple(dict.fromkeys(name for _, name in program.outputs if program.step(name).full))
    if full:
        planned.append(Pass(program.passes + 1, (), full))
    return planned


def list_scratch_steps(program: Program) -> list[str]:
    """Full steps that several passes need and that are dear to compute: candidates for a scratch row."""
    plan = passes(program)
    needs = [{s.name for s in program.list_needed_steps(list(p.sources))} for p in plan]
    names: list[str] = []
    for i, pass_needs in enumerate(needs):
        later = set().union(*needs[i + 1 :]) if i + 1 < len(needs) else set()
        shared = pass_needs & later
        users = {s.name: [t.name for t in program.steps if s.name in t.args] for s in program.steps}
        for step in program.steps:
            edge = step.name in shared and (
                not set(users[step.name]) & shared
                or step.name in plan[i].sources
                or step.name in _find_later_sources(plan, i)
            )
            if edge and step.kind == "f" and step.name not in names and _dear(program, step, set(names)):
                names.append(step.name)
    return names


def describe(step: Expr) -> str:
    names = {
        "fmax": "max",
        "moments": "mean and squared deviations",
        "softmax": "max and sum of exponentials",
    }
    return f"{names.get(step.reduction, step.reduction)} of {step.args[0]}"


def _find_later_sources(plan: list[Pass], i: int) -> set[str]:
    return {name for p in plan[i + 1 :] for name in p.sources}


def _dear(program: Program, step: Expr, kept: set[str]) -> bool:
    chain = program.list_needed_steps([step.name], frozenset(kept))
    loads = [s for s in chain if s.operand is not None]
    wide = sum(s.operand is not None and s.operand.dtype != "float32" for s in loads)
    return sum(s.cost for s in chain) - len(loads) + 3 * wide + 2 * (len(loads) - 1) >= WORTH_KEEPING
