"""The synthesis agent: hypothesis → unit sources, several variants, tunables declared rather than guessed."""

from __future__ import annotations

from ..records import Graph, Hypothesis, Unit
from .base import SynthesisBrain


class SynthesisAgent:
    def __init__(self, brain: SynthesisBrain) -> None:
        self.brain = brain

    def write(self, graph: Graph, hypothesis: Hypothesis, m: int) -> list[Unit]:
        """At most `m` different units for the hypothesis's own region; a brain's other offers are dropped."""
        units: dict[str, Unit] = {}
        for unit in self.brain.write_units(graph, hypothesis, m):
            if unit.region == hypothesis.region:
                units.setdefault(unit.code_key, unit)
        return list(units.values())[:m]
