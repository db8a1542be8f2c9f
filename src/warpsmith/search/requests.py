"""Requests of people to a search: a parent that is pinned, a hypothesis, a kernel. They are served between two rounds.

In: a request and the context of the round. Out: candidates to judge, or a parent pinned; UsageError, one line, for what cannot be done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pydantic import ValidationError

from ..agents.base import Attempt
from ..errors import UsageError
from ..records import Candidate, Hypothesis
from ..records.intervals import describe_ratio
from ..records.live import Request, RequestStatus
from .operators import Proposal, SearchContext
from .operators.base import branch_of
from .operators.rewrite import place

REQUESTED = "given"  # the operator that the ledger books these under
MAX_UNITS = 2  # that are written for a hypothesis


class Inbox(Protocol):
    def take(self, round_number: int) -> Sequence[Request]:
        """Take what is to be done before this round, in the order in which it was asked."""
        ...

    def answer(self, request: Request, status: RequestStatus, text: str) -> None:
        """Say what came of it."""
        ...


class EmptyInbox:
    """Nobody asks for anything."""

    def take(self, round_number: int) -> Sequence[Request]:
        return ()

    def answer(self, request: Request, status: RequestStatus, text: str) -> None: ...


def pin_parent(context: SearchContext, request: Request) -> str:
    """Pin a candidate, or let go of the one that is; say so."""
    candidate_id = request.body.get("candidate", "")
    if not candidate_id:
        context.population.pin(None)
        return "no parent is pinned any more"
    attempts = [a for a in context.situation.attempts if a.candidate.id == candidate_id]
    if not attempts:
        raise UsageError(f"this run has no candidate {candidate_id[:40]}")
    if attempts[-1].speedup <= 0:
        raise UsageError(
            f"candidate {candidate_id} did not work ({attempts[-1].result.status}): it can be no parent"
        )
    context.population.pin(attempts[-1])
    return f"pinned as the first parent from round {context.situation.round} on"


def propose_requested(context: SearchContext, request: Request) -> list[Proposal]:
    """Make the candidates of a submitted kernel, or of a hypothesis that somebody here can write."""
    try:
        if request.kind == "kernel":
            return [_read_kernel(context, request.body["candidate"])]
        hypothesis = Hypothesis.model_validate_json(request.body["hypothesis"])
    except (ValidationError, KeyError) as error:
        raise UsageError("the request cannot be read") from error
    return _write_hypothesis(context, hypothesis)


def _read_kernel(context: SearchContext, text: str) -> Proposal:
    candidate, situation = Candidate.model_validate_json(text), context.situation
    if (candidate.task_id, candidate.target) != (situation.task.id, situation.target):
        raise UsageError("the kernel is for another task or target")
    update = {"round": situation.round, "branch": branch_of(candidate.units)}
    lineage = candidate.lineage.model_copy(update=update)
    leaders = context.leaders()
    island = leaders[0][0] if leaders else 0
    return Proposal(candidate.model_copy(update={"lineage": lineage}), None, island)


def _write_hypothesis(context: SearchContext, hypothesis: Hypothesis) -> list[Proposal]:
    situation = context.situation
    if not set(hypothesis.region.nodes) <= {n.name for n in situation.graph.nodes}:
        raise UsageError("the hypothesis is about nodes that this task does not have")
    units = context.team.synthesis.write(situation.graph, hypothesis, MAX_UNITS, situation)
    if not units:
        raise UsageError(
            f"whoever writes units here has none for {hypothesis.technique or hypothesis.family} on {hypothesis.region.title}"
        )
    proposals = []
    for unit in units:
        island, parent = context.find_host(unit.region)
        candidate = place(situation, parent, unit, hypothesis, agent="person")
        proposals.append(Proposal(candidate, hypothesis, island))
    return proposals


def describe_attempts(attempts: Sequence[Attempt]) -> str:
    """Say of each candidate how it ended, with its speedup where it was timed."""
    lines = []
    for attempt in attempts:
        result = attempt.result
        ratio = result.speedup
        if result.status == "ok" and ratio is not None:
            lines.append(f"correct, {describe_ratio(ratio)} over {ratio.baseline}")
        else:
            lines.append(f"{result.status}: {result.reason}" if result.reason else result.status)
    return "; ".join(dict.fromkeys(lines)) or "nothing of it could be judged before the search ended"


__all__ = ["REQUESTED", "EmptyInbox", "Inbox", "describe_attempts", "pin_parent", "propose_requested"]
