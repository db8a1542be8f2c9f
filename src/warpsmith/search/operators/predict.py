"""Predict: the candidate that promises most of all that could be put together, by what is known of times here and elsewhere.

In: the ground, with its experience. Out: candidates, the most promising first. Every cut of the graph is open, each of its regions
with any technique, value and flag, or left to ATen where that is faster; so several regions change at once. What was measured
counts as measured. First of all comes the agents' own guess, unless something promises clearly more.
"""

from __future__ import annotations

from ...records import Lineage
from ..experience import Key, key_of, units_of
from .base import Bred, Breeding, assemble, changes
from .promises import Offer, Promise, Promises
from .seed import Seed

SURE = 0.05  # of the logarithm of the time: what must be promised to be tried before the agents' own guess


class Predict:
    """Of one search: it keeps what is on offer, and what turned out as known in other words."""

    name = "predict"
    everywhere = True

    def __init__(self) -> None:
        self._offer: Offer | None = None
        self._known: set[tuple[str, Key]] = set()

    def applies(self, ground: Breeding) -> bool:
        """Before anything was judged, and where units are timed alone."""
        if ground.experience is None or ground.asks:
            return False
        return not ground.situation.attempts or bool(units_of(ground.situation.attempts))

    def reject(self, bred: Bred) -> None:
        """What it has that was not measured is not offered again."""
        self._known.update((u.region.id, key_of(u)) for u in bred.candidate.units)

    def breed(self, ground: Breeding, n: int) -> list[Bred]:
        if ground.experience is None:
            return []
        if self._offer is None:
            self._offer = Offer(ground, ground.experience)
        promises = Promises(self._offer, ground.experience, ground, self._known)
        bred = [_child(ground, self._offer, one) for one in promises.best(n)]
        return bred if ground.situation.attempts else self._guess_first(ground, promises, bred)[:n]

    def _guess_first(self, ground: Breeding, promises: Promises, bred: list[Bred]) -> list[Bred]:
        """What promises more than the guess does so by its settings: which cut is the best nobody knows before one was timed."""
        guess = next(iter(Seed().breed(ground, 1)), None)
        if guess is None:
            return bred
        cover = _cover(guess)
        same = [b for b in bred if _cover(b) == cover]
        sure = promises.log_us(guess.candidate.units) - SURE
        better = [b for b in same if promises.log_us(b.candidate.units) <= sure]
        return [*better, guess]


def _cover(bred: Bred) -> list[str]:
    return [u.region.id for u in bred.candidate.units]


def _child(ground: Breeding, offer: Offer, promise: Promise) -> Bred:
    units = [offer.pools[region].units[at] for region, at in promise.cover.items()]
    best = ground.population.best()
    before = {u.region.id: u for u in best.candidate.units} if best is not None else {}
    told = [changes(before[u.region.id], u) for u in units if u.region.id in before]
    made = Lineage(
        operator="tune", agent="orchestrator", parents=(best.candidate.id,) if best is not None else (),
        reason="; ".join(filter(None, told))[:400] or "of all that could be written what promises most",
    )  # fmt: skip
    return Bred(assemble(ground.situation, units, made), None, promise.plan)
