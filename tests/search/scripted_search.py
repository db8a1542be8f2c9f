"""Whole searches on a scripted judge: a brain with a few techniques on a chain of operations, and settings to switch."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from warpsmith.agents.base import Attempt, Situation
from warpsmith.agents.compile import CompileAgent
from warpsmith.agents.correctness import CorrectnessAgent
from warpsmith.agents.orchestrator import OrchestratorAgent
from warpsmith.agents.reasoning import ReasoningAgent
from warpsmith.agents.synthesis import SynthesisAgent
from warpsmith.archive.timings import TimedUnit
from warpsmith.config import Config
from warpsmith.facts import Facts
from warpsmith.records import Budget, Candidate, Limit, Task, Unit
from warpsmith.search.loop import Search, Team
from warpsmith.search.meter import Meter
from warpsmith.search.methods import make_methods
from warpsmith.search.operators import SearchContext, TransferSeeds, find_no_seeds
from warpsmith.search.tuner import HillClimb
from warpsmith.testing import FakeBrain, ScriptedExecutor, chain_task

FACTS = Facts(threads=2, node_us={"n0": 60.0, "n1": 40.0}, total_us=100.0, limit_us=1e-3)
LIMIT = Limit(
    seconds=1e-9, least_bytes=1, flops=1, bytes_per_second=1e12, flops_per_second=1e12, bound="memory"
)


class Varying(FakeBrain):
    """Also edits ("a" becomes "a+") and combines ("a" and "b" become "a&b")."""

    def edit_unit(self, situation: Situation, parent: Attempt, unit: Unit, m: int) -> list[tuple[Unit, str]]:
        return [(self.named(unit, f"{unit.technique}_plus"), "it is slow")][:m]

    def combine_units(
        self, situation: Situation, parents: Sequence[tuple[Attempt, Unit]], m: int
    ) -> list[Unit]:
        units = [unit for _, unit in parents]
        return [self.named(units[0], "_and_".join(sorted(u.technique for u in units)))][:m]

    @staticmethod
    def named(unit: Unit, technique: str) -> Unit:
        source = f"// {technique}\n{technique}(UNROLL, BLOCK);"
        return unit.model_copy(update={"technique": technique, "source": source})


def searched(
    speed: Callable[[Candidate], float | str] | ScriptedExecutor, *, brain: FakeBrain | None = None, evaluations: int = 40,
    transfer_seeds: TransferSeeds = find_no_seeds, seed: int = 7, patience: int = 3, run: bool = True, asks: bool = False,
    assembly: Callable[[Unit], str] | None = None, elsewhere: Sequence[TimedUnit] = (), task: Task | None = None,
    adopted: Sequence[Candidate] = (), **settings: Any,
) -> Search:  # fmt: skip
    """A search that was run, by these settings."""
    brain = brain or FakeBrain()
    executor = speed if isinstance(speed, ScriptedExecutor) else ScriptedExecutor(speed)
    team = Team(
        ReasoningAgent(brain), SynthesisAgent(brain, asks=asks), CompileAgent(brain), CorrectnessAgent(brain),
        OrchestratorAgent(2, 1, patience, near_limit=9.0, seeds=not asks), HillClimb(),
    )  # fmt: skip
    search = Search(
        task or chain_task(), "cpu", FACTS, LIMIT, team, executor, Meter(Budget(evaluations=evaluations, seconds=None)),
        lambda attempt: None, seed=seed, methods=make_methods(Config(**settings), transfer_seeds, assembly, elsewhere=elsewhere, adopted=adopted),
    )  # fmt: skip
    if run:
        search.run()
    return search


def best(search: Search) -> float:
    return max((a.speedup for a in search.attempts), default=0.0)


def operators(search: Search) -> set[str]:
    return {a.candidate.lineage.operator for a in search.attempts}


def ground_of(search: Search, **changes: Any) -> SearchContext:
    """What an operator would see after the search's last round."""
    methods = search.methods
    return SearchContext(
        search.situation(), search.team, methods.population, methods.steering, random.Random(1), methods.transfer_seeds, **changes
    )  # fmt: skip
