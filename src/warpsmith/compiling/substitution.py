"""Which winners of the archive a graph can run: their kernels found in it, built, and made operators.

In: the graph of a model, the winners that hold on this machine with their tasks, a target. Out: the replacements, and for each
winner what became of it. A winner is used when each of its units occurs in the graph, since it won as a whole; a unit may occur
more often (equal layers).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..archive import Entry
from ..errors import JudgeError, TaskError, ToolchainError
from ..records import Graph, Region, Task, Unit
from ..runtime.fx_graphs import Replacement, extract_region, to_fx
from ..runtime.unit_operators import define_unit_operator
from ..targets.target import Target, unit_device
from ..tasks.regions import topological_groups
from .explanation import KernelUse, Refusal
from .matching import Matcher


@dataclass(frozen=True)
class Offer:
    """A winner that holds here, and the task that it won."""

    entry: Entry
    task: Task

    @property
    def saved_us(self) -> float:
        """Microseconds that a call of it saved over its best baseline, where it was judged."""
        timing, ratio = self.entry.result.timing, self.entry.result.speedup
        return timing.median_us * (ratio.low - 1) if timing is not None and ratio is not None else 0.0


@dataclass(frozen=True)
class _Use:
    unit: Unit
    offer: Offer
    sites: tuple[Region, ...]


@dataclass(frozen=True)
class Substitution:
    """What replaces what in a graph."""

    replacements: tuple[Replacement, ...]
    kernels: tuple[KernelUse, ...]
    refusals: tuple[Refusal, ...]

    @property
    def covered(self) -> int:
        """Count the operations that are replaced."""
        return sum(len(r.region.nodes) for r in self.replacements)


def substitute(graph: Graph, offers: Iterable[Offer], target: Target) -> Substitution:
    """Choose winners by what they save, the most first, and build their kernels."""
    matcher, refusals = Matcher(graph), []
    replaced: list[Region] = []
    replacements: list[Replacement] = []
    kernels: list[KernelUse] = []
    for offer in sorted(offers, key=lambda o: -o.saved_us):
        uses = _find_places(matcher, offer, replaced)
        if isinstance(uses, str):
            refusals += [Refusal(task=offer.task.name, reason=uses)] if uses else []
            continue
        try:
            operators = [_make_operator(use, target) for use in uses]
        except (TaskError, JudgeError, ToolchainError) as error:
            refusals.append(Refusal(task=offer.task.name, reason=str(error)))
            continue
        for use, operator in zip(uses, operators, strict=True):
            replaced += use.sites
            replacements += [Replacement(region, operator) for region in use.sites]
            kernels.append(_describe(graph, use, operator))
    return Substitution(tuple(replacements), tuple(kernels), tuple(refusals))


def _find_places(matcher: Matcher, offer: Offer, replaced: Sequence[Region]) -> list[_Use] | str:
    """Find where each unit of a winner stands; or why the winner is not used, empty where nothing of it occurs."""
    pattern, units = offer.task.graph, offer.entry.candidate.units
    busy, uses = {name for region in replaced for name in region.nodes}, dict[int, _Use]()
    regions, replaced_here = list(replaced), set[str]()
    occurring = 0
    # The largest first: a small region may also occur within a larger one, which occurs nowhere else.
    for number in sorted(range(len(units)), key=lambda n: -len(units[n].region.nodes)):
        occurrences = matcher.find(pattern, units[number].region)
        occurring += bool(occurrences)
        sites: list[Region] = []
        for region in occurrences:
            if busy.isdisjoint(region.nodes) and _can_run(matcher.graph, [*regions, region]):
                busy.update(region.nodes)
                replaced_here.update(region.nodes)
                regions.append(region)
                sites.append(region)
        # In equal layers the first of its kernels stands for all of them.
        if sites or not any(replaced_here.issuperset(region.nodes) for region in occurrences):
            uses[number] = _Use(units[number], offer, tuple(sites))
    if all(use.sites for use in uses.values()) and uses:
        return [uses[number] for number in sorted(uses)]
    if not occurring:
        return ""
    if occurring < len(units):
        return f"{occurring} of its {len(units)} kernels occur here, and it won with all of them"
    return "others that save more stand in its place"


def _can_run(graph: Graph, regions: Sequence[Region]) -> bool:
    """Return whether no region waits for another's values in a circle."""
    try:
        topological_groups(graph, regions)
    except TaskError:
        return False
    return True


def _make_operator(use: _Use, target: Target) -> Any:
    """The operator of a unit, or the fx module of one in ATen. Raises TaskError, JudgeError, ToolchainError."""
    unit, graph, device = use.unit, use.offer.task.graph, unit_device(target)
    if unit.rewrite is not None and not unit.compiled:
        region = extract_region(graph, unit.region)
        return to_fx(region.model_copy(update={"nodes": unit.rewrite.nodes}), device=device)
    build = target.build(unit, graph, "main")
    if not build.ok:
        why = build.diagnostics[0].message if build.diagnostics else "the compiler failed"
        raise ToolchainError(f"its kernel does not build here: {why}")
    return define_unit_operator(
        graph, unit.region, Path(build.library), device, unit.technique or unit.family
    )


def _describe(graph: Graph, use: _Use, operator: Any) -> KernelUse:
    return KernelUse(
        operator=operator._schema.name if hasattr(operator, "_schema") else "",
        technique=use.unit.technique or use.unit.family,
        task=use.offer.task.name,
        speedup=use.offer.entry.result.speedup,
        occurrences=tuple(
            ", ".join(graph.by_name[n].op.removeprefix("aten.").partition(".")[0] for n in r.nodes)
            for r in use.sites
        ),
    )


__all__ = ["Offer", "Substitution", "substitute"]
