"""Adopt: kernels that others wrote for this very task join the population as they are, each author's on an island of their own.

In: the adopted candidates, the best of each author first. Out: themselves, with their own lineage; what was judged on this machine is
not judged again. From then on every operator takes them for parents: tuned, edited, crossed with the agents' own.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...records import Candidate
from .base import Proposal, SearchContext

MOST_ISLANDS = 3  # that are added for authors; more authors share them


class Adopt:
    name = "adopt"
    everywhere = True

    def applies(self, context: SearchContext) -> bool:
        return bool(self._list_new(context))

    def propose(self, context: SearchContext, n: int) -> list[Proposal]:
        islands = number_islands(context.adopted, len(context.population.islands))
        return [
            Proposal(candidate, None, islands[candidate.lineage.author])
            for candidate in self._list_new(context)[:n]
        ]

    def _list_new(self, context: SearchContext) -> list[Candidate]:
        judged = {a.candidate.content_key for a in context.situation.attempts}
        return [c for c in context.adopted if c.content_key not in judged]


def count_islands(adopted: Sequence[Candidate]) -> int:
    """Return how many islands the authors of these get."""
    return min(MOST_ISLANDS, len({c.lineage.author for c in adopted}))


def number_islands(adopted: Sequence[Candidate], islands: int) -> dict[str, int]:
    """Return the island of each author: the last ones of the population, in turn."""
    authors, count = list(dict.fromkeys(c.lineage.author for c in adopted)), max(1, count_islands(adopted))
    return {author: islands - count + number % count for number, author in enumerate(authors)}
