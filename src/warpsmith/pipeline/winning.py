"""A win as a module runs it: the libraries of its units, and the graph that they are put into."""

from __future__ import annotations

from pathlib import Path

from ..records import Candidate, Graph, Region, Task
from ..runtime.rewrites import find_rewritten
from ..targets.target import Target
from .summary import Outcome


def find_winner(outcome: Outcome) -> Candidate | None:
    """Return the candidate of a run that was won."""
    return outcome.best.candidate if outcome.summary.status == "win" and outcome.best is not None else None


def build_winner(task: Task, target: Target, outcome: Outcome) -> list[tuple[Region, Path]]:
    """Build (region, library) of each unit of a win; empty when there is none."""
    winner = find_winner(outcome)
    units = winner.compiled if winner is not None else ()
    return [(unit.region, Path(target.build(unit, task.graph, "main").library)) for unit in units]


def rewrite_for_winner(task: Task, outcome: Outcome) -> Graph | None:
    """Return the deployed graph where a win's units in ATen change the task's graph; else None."""
    winner = find_winner(outcome)
    return find_rewritten(task.graph, winner.units) if winner is not None else None
