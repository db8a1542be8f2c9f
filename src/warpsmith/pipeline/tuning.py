"""Tune one candidate: a search over the values of its units' tunables alone, with its structure as its author wrote it.

In: the candidate, its task, an open executor, a budget. Out: the attempts, the candidate at its own values first. What was measured before is
taken from `known`. `best_attempt` says which one won.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ..agents.base import Attempt
from ..agents.compile import CompileAgent
from ..agents.correctness import CorrectnessAgent
from ..agents.expert.brain import ExpertBrain
from ..agents.orchestrator import OrchestratorAgent
from ..agents.reasoning import ReasoningAgent
from ..agents.synthesis import SynthesisAgent
from ..executors.executor import Executor, Screener
from ..records import Budget, Candidate, Result, Task
from ..search.loop import Search, Team
from ..search.meter import Meter
from ..search.methods import Methods
from ..search.novelty import Novelty
from ..search.operators.adopt import Adopt
from ..search.operators.tune import Tune
from ..search.population import Population
from ..search.steering import Steering
from ..search.tuner import HillClimb, Tuner
from .summary import Ground

PATIENCE_ROUNDS = 2  # without gain before the tuning stops


def tune(
    candidate: Candidate,
    task: Task,
    ground: Ground,
    executor: Executor,
    budget: Budget,
    *,
    tuner: Tuner | None = None,
    record: Callable[[Attempt], None] = lambda attempt: None,
    known: Mapping[str, Result] | None = None,
    screener: Screener | None = None,
    seed: int = 0,
) -> list[Attempt]:
    """Try other values until the budget is spent or nothing gains any more. `screener`: times candidates quickly, and only the most promising
    get a verdict; None: each gets one. `record` hears each attempt. Every attempt but the first has the candidate among its parents' line.
    """
    search = Search(
        task, candidate.target, ground.facts, ground.limit, _make_team(tuner or HillClimb()), executor, Meter(budget), record,
        known=known or {}, seed=seed, screener=screener,
        methods=Methods(
            operators={"adopt": Adopt(), "tune": Tune()}, population=Population(1), novelty=Novelty(None),
            steering=Steering(on=False), adopted=(candidate,), simplest=False,
        ),
    )  # fmt: skip
    search.run()
    return search.attempts


def best_attempt(attempts: Sequence[Attempt]) -> Attempt | None:
    """The one with the highest low end; None where all failed."""
    return max((a for a in attempts if a.speedup > 0), key=lambda a: (not a.screened, a.rank), default=None)


def _make_team(tuner: Tuner) -> Team:
    """No agent writes anything; each repairs what its rules know of builds that fail at other values."""
    brain = ExpertBrain()
    return Team(
        ReasoningAgent(brain), SynthesisAgent(brain), CompileAgent(brain), CorrectnessAgent(brain),
        OrchestratorAgent(branches=3, variants=1, patience=PATIENCE_ROUNDS, near_limit=math.inf), tuner,
    )  # fmt: skip
