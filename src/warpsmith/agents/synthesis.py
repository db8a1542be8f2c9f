"""The synthesis agent: hypothesis → unit sources, several variants, tunables declared rather than guessed."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ..llm.chat import BudgetSpent
from ..records import Graph, Hypothesis, Unit
from .base import Situation, SynthesisBrain


class SynthesisAgent:
    """`workers`: how many hypotheses are written at once, for a brain that mostly waits."""

    def __init__(self, brain: SynthesisBrain, workers: int = 1) -> None:
        self.brain, self.workers = brain, workers

    def write(
        self, graph: Graph, hypothesis: Hypothesis, m: int, situation: Situation | None = None
    ) -> list[Unit]:
        """At most `m` different units for the hypothesis's own region; a brain's other offers are dropped."""
        units: dict[str, Unit] = {}
        for unit in self.brain.write_units(graph, hypothesis, m, situation):
            if unit.region == hypothesis.region:
                units.setdefault(unit.code_key, unit)
        return list(units.values())[:m]

    def write_all(
        self, situation: Situation, hypotheses: Sequence[Hypothesis], m: int
    ) -> list[tuple[Hypothesis, Unit]]:
        """Units for each hypothesis, in order. What was paid for before a limit was reached is returned; BudgetSpent is
        raised when that is nothing.
        """
        with ThreadPoolExecutor(max(1, self.workers)) as pool:
            jobs = [pool.submit(self.write, situation.graph, h, m, situation) for h in hypotheses]
        written: list[tuple[Hypothesis, Unit]] = []
        spent: BudgetSpent | None = None
        for hypothesis, job in zip(hypotheses, jobs, strict=True):
            try:
                written += [(hypothesis, unit) for unit in job.result()]
            except BudgetSpent as reached:
                spent = reached
        if spent is not None and not written:
            raise spent
        return written
