"""A racing tuner: settings are drawn around an elite of those tried, closer and closer, as irace does it.

Iterated racing (López-Ibáñez et al., Operations Research Perspectives 3, 2016) also stops measuring what is surely slower; that is
the judge's part, whose timing of a hopeless candidate ends early whoever proposed it.
"""

from __future__ import annotations

import math
import random

from ..records import Tunable, Unit
from .tuner import Fresh, Tried, Values

ELITE = 4  # settings that new ones are drawn around, the better the more often
DRAWN = 20  # times as many draws as settings wanted, at the most


class Racing:
    def propose(self, unit: Unit, tried: Tried, n: int, rng: random.Random) -> list[Unit]:
        fresh = Fresh(unit, tried, n)
        elite = [v for v, score in sorted(tried, key=lambda t: -t[1])[:ELITE] if score > 0]
        if elite and unit.tunables:
            weights = [len(elite) - rank for rank in range(len(elite))]
            narrow = math.sqrt(1.0 + len(tried) / (2.0 * len(unit.tunables)))
            added = 0
            for _ in range(DRAWN * n):
                around = rng.choices(elite, weights)[0]
                added += fresh.add({t.name: _near(t, around, narrow, rng) for t in unit.tunables})
                if added == n:
                    break
        return fresh.fill(rng)


def _near(tunable: Tunable, around: Values, narrow: float, rng: random.Random) -> int:
    """A value whose place in the domain is normal about the elite's, within half of the domain over `narrow`."""
    domain = sorted(tunable.domain)
    at = around.get(tunable.name, tunable.value)
    if at not in domain:
        return rng.choice(domain)
    position = rng.gauss(domain.index(at), len(domain) / 2 / narrow)
    return domain[min(max(round(position), 0), len(domain) - 1)]
