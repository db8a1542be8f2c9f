"""Why the expert proposes what it proposes, in lines of measured facts.

In: an idea, and all that was measured before it. Out: the evidence of its hypothesis: what the region needs
at least, what it takes in the reference, what its units measured so far, and what of that speaks for this
step.
"""

from __future__ import annotations

from ...facts import Facts
from ...kernels.costs import aten_us, floor_us, region_bytes
from ...progress import counted
from ...records import Graph, RegionProfile
from ..findings import summary
from .ideas import Idea, Known


def evidence(graph: Graph, facts: Facts, idea: Idea, known: Known) -> tuple[str, ...]:
    lines = [*_reference(graph, facts, idea), *_describe_judged(idea, known)]
    measured = known.regions.get(idea.region.id)
    if idea.because is not None and measured is not None:
        unit = known.units.get((idea.region.id, idea.technique.name), measured)
        lines.append(f"{unit.technique}: {idea.because.text}; therefore {_step(idea, unit)}")
    lines += [
        f"left alone: {_about(known.regions[r])}, {finding.text}" for r, finding in known.closed.items()
    ]
    return (*lines, idea.technique.why)


def _reference(graph: Graph, facts: Facts, idea: Idea) -> list[str]:
    """Against the least that the region needs: what ATen takes for it."""
    region = idea.region
    before, floor = aten_us(graph, region, facts), floor_us(graph, region, facts)
    moved, flops = region_bytes(graph, region), sum(graph.by_name[n].flops for n in region.nodes)
    lines = [
        f"{counted(len(region.nodes), 'node')} must move {moved / 1e6:.2f} MB and do {flops / 1e6:.1f} MFLOP; "
        f"at {facts.bandwidth / 1e9:.1f} GB/s that takes {floor:.0f} us"
    ]
    if not all(n in facts.node_us for n in region.nodes):
        return lines
    whom = "it" if len(region.nodes) == 1 else "them"
    share = f", {before / facts.total_us:.0%} of the reference" if facts.total_us else ""
    lines.append(
        f"ATen takes {before:.0f} us for {whom}{share}: {floor / max(before, 1e-9):.0%} of the limit"
    )
    if len(region.nodes) > 1:
        slow = max(region.nodes, key=lambda n: facts.node_us[n])
        lines.append(f"slowest node: {slow} ({graph.by_name[slow].op}), {facts.node_us[slow]:.0f} us")
    return lines


def _describe_judged(idea: Idea, known: Known) -> list[str]:
    """Describe what was measured of the region's units, and their share of the best candidate's time."""
    lines = [
        f"{name} was measured at {ratio:.2f}x"
        for (region, name), ratio in known.ratios.items()
        if region == idea.region.id and ratio
    ]
    best = known.best.profile if known.best is not None else None
    in_best = {p.region: p for p in best.regions} if best is not None else {}
    measured = known.regions.get(idea.region.id)
    if measured is not None:
        lines.append(f"the region's fastest unit, {_about(measured)}: {summary(measured)}")
    profile = in_best.get(idea.region.id)
    if profile is not None and known.best is not None and known.best.timing is not None:
        total = known.best.timing.median_us
        lines.append(
            f"in the fastest candidate it takes {profile.seconds * 1e6 / total:.0%} of {total:.0f} us"
        )
    return lines


def _step(idea: Idea, unit: RegionProfile) -> str:
    if idea.technique.name != unit.technique:
        return f"{idea.technique.name} in its place"
    before = unit.current_values
    changed = [f"{n} {before[n]}→{v}" for n, v in idea.values.items() if before.get(n, v) != v]
    return ", ".join(changed) or "the same with its own values"


def _about(profile: RegionProfile) -> str:
    values = " ".join(f"{n}={v}" for n, v in profile.values.items())
    return f"{profile.technique} ({values})" if values else profile.technique
