"""The synthesis agent: hypothesis → unit sources, several variants, tunables declared rather than guessed; judged units → variations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ..llm.chat import BudgetSpent
from ..records import Graph, Hypothesis, Region, Unit
from .base import Attempt, Situation, SynthesisBrain, VaryingBrain


class SynthesisAgent:
    """`workers`: how many hypotheses are written at once, for a brain that mostly waits. `asks`: each unit costs a question."""

    def __init__(self, brain: SynthesisBrain, workers: int = 1, asks: bool = False) -> None:
        self.brain, self.workers, self.asks = brain, workers, asks

    def write(
        self, graph: Graph, hypothesis: Hypothesis, m: int, situation: Situation | None = None
    ) -> list[Unit]:
        """Write at most `m` different units for the hypothesis's own region; a brain's other offers are dropped."""
        return _different(self.brain.write_units(graph, hypothesis, m, situation), hypothesis.region)[:m]

    def edits(
        self, situation: Situation, parent: Attempt, unit: Unit, m: int, judged: Collection[str] = ()
    ) -> list[tuple[Unit, str]]:
        """Propose at most `m` units a little different from one of the parent's, each with why; none with a code key in `judged`.
        Empty where the brain does not vary units.
        """
        if m <= 0 or not isinstance(self.brain, VaryingBrain):
            return []
        room = m if self.asks else m + len(judged)
        whys = {u.code_key: (u, why) for u, why in self.brain.edit_unit(situation, parent, unit, room)}
        units = _different((u for u, _ in whys.values()), unit.region)
        fresh = [u.code_key for u in units if u.code_key not in judged and u.code_key != unit.code_key]
        return [whys[key] for key in fresh[:m]]

    def combine(self, situation: Situation, parents: Sequence[tuple[Attempt, Unit]], m: int) -> list[Unit]:
        """Write at most `m` units that combine those of several candidates for one region, none that is one of them."""
        if not isinstance(self.brain, VaryingBrain):
            return []
        parent_keys = {unit.code_key for _, unit in parents}
        units = _different(self.brain.combine_units(situation, parents, m), parents[0][1].region)
        return [u for u in units if u.code_key not in parent_keys][:m]

    def write_all(
        self, situation: Situation, hypotheses: Sequence[Hypothesis], m: int
    ) -> list[tuple[Hypothesis, Unit]]:
        """Write units for each hypothesis, in order. Units that were paid for before a limit was reached are returned;
        BudgetSpent is raised when there are none.
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


def _different(units: Iterable[Unit], region: Region) -> list[Unit]:
    """List the units for the region, each once."""
    return list({u.code_key: u for u in units if u.region == region}.values())
