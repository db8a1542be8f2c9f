"""Predict: the candidate that promises most of all that could be put together, by what is known of times here and elsewhere.

In: the context, with its experience. Out: candidates, the most promising first. Every cut of the graph is open, each of its regions
with any technique, value and flag, or left to ATen where that is faster; so several regions change at once. What was measured
counts as measured. First of all comes the agents' own guess, unless something promises clearly more.
"""

from __future__ import annotations

from ...records import Lineage
from ..experience import Key, list_timed_units, make_key
from .base import Proposal, SearchContext, assemble, changes
from .predictions import CandidateSpace, PredictedCandidate, Predictions
from .seed import Seed

SURE = 0.05  # of the logarithm of the time: what must be promised to be tried before the agents' own guess


class Predict:
    """An operator of one search: it keeps what is on offer, and what turned out as known in other words."""

    name = "predict"
    everywhere = True

    def __init__(self) -> None:
        self._offer: CandidateSpace | None = None
        self._known: set[tuple[str, Key]] = set()

    def applies(self, context: SearchContext) -> bool:
        """Before anything was judged, and where units are timed alone."""
        if context.experience is None or context.asks:
            return False
        return not context.situation.attempts or bool(list_timed_units(context.situation.attempts))

    def reject(self, proposal: Proposal) -> None:
        """Do not offer again the units of a proposal that were not measured."""
        self._known.update((u.region.id, make_key(u)) for u in proposal.candidate.units)

    def propose(self, context: SearchContext, n: int) -> list[Proposal]:
        if context.experience is None:
            return []
        if self._offer is None:
            self._offer = CandidateSpace(context, context.experience)
        promises = Predictions(self._offer, context.experience, context, self._known)
        proposals = [_child(context, self._offer, candidate) for candidate in promises.best(n)]
        return (
            proposals if context.situation.attempts else self._guess_first(context, promises, proposals)[:n]
        )

    def _guess_first(
        self, context: SearchContext, promises: Predictions, proposals: list[Proposal]
    ) -> list[Proposal]:
        """Put the guess first: others promise more by their settings alone, and nobody knows the best cut before one was timed."""
        guess = next(iter(Seed().propose(context, 1)), None)
        if guess is None:
            return proposals
        cover = _cover(guess)
        same = [b for b in proposals if _cover(b) == cover]
        sure = promises.log_us(guess.candidate.units) - SURE
        better = [b for b in same if promises.log_us(b.candidate.units) <= sure]
        return [*better, guess]


def _cover(proposal: Proposal) -> list[str]:
    return [u.region.id for u in proposal.candidate.units]


def _child(context: SearchContext, offer: CandidateSpace, promise: PredictedCandidate) -> Proposal:
    units = [offer.make_unit(region, at) for region, at in promise.cover.items()]
    best = context.population.best()
    before = {u.region.id: u for u in best.candidate.units} if best is not None else {}
    differences = [changes(before[u.region.id], u) for u in units if u.region.id in before]
    lineage = Lineage(
        operator="tune", agent="orchestrator", parents=(best.candidate.id,) if best is not None else (),
        reason="; ".join(filter(None, differences))[:400] or "of all that could be written what promises most",
    )  # fmt: skip
    return Proposal(assemble(context.situation, units, lineage), None, promise.plan)
