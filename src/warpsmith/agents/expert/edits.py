"""Local edits: what lies next to a unit that was judged. First the steps that its profile speaks for, then the other techniques of
its family, at the unit's own values as far as they have them.

In: the graph, what was measured, a unit and its profile. Out: hypotheses, one an edit.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...facts import Facts
from ...kernels.family import Technique
from ...kernels.registry import families_of, target_of
from ...records import Graph, Hypothesis, RegionProfile, Unit
from ..findings import findings
from .steps import steps


def neighbours(graph: Graph, facts: Facts, unit: Unit, profile: RegionProfile | None) -> Iterator[Hypothesis]:
    """Nothing for a unit that the expert did not write."""
    family = families_of(target_of(unit.language)).get(unit.family)
    offered = family.techniques(graph, unit.region, facts) if family is not None else []
    current = next((t.at(unit.current_values) for t in offered if t.name == unit.technique), None)
    if current is None:
        return
    for values, finding in steps(current, findings(profile) if profile is not None else ()):
        yield _edit(unit, current.at(values), finding.text, finding.gain)
    for technique in offered:
        if technique.name != unit.technique:
            yield _edit(unit, technique.at(unit.current_values), technique.why, 1.0)


def _edit(unit: Unit, technique: Technique, why: str, gain: float) -> Hypothesis:
    return Hypothesis(
        region=unit.region, family=unit.family, technique=technique.name, bottleneck=technique.bottleneck,
        expected_gain=gain, evidence=(why,), values={t.name: t.value for t in technique.tunables},
    )  # fmt: skip
