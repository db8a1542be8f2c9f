"""One source of a landscape: which settings of its tunables are recorded, in which order.

In: a unit at its technique's own values, how many settings there may be. Out: a lattice of settings, and their coordinates.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import product
from math import prod

from warpsmith.executors import landscape_data as lands
from warpsmith.records import (
    Unit,
)
from warpsmith.search.tuner import with_values


@dataclass
class Space:
    """One source and the lattice of its settings that is recorded."""

    number: int
    site: int
    unit: Unit  # at the technique's own values
    domains: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def place(self, unit: Unit) -> lands.Point:
        more = tuple(f for f in unit.flags if f not in self.unit.flags)
        return lands.Point(
            source=self.number, values=tuple(unit.values[t.name] for t in self.unit.tunables), flags=more
        )

    def thin(self, most: int, rng: random.Random) -> None:
        """Domains without some of their values, the unit's own never among those, until at most `most` settings are left."""
        self.domains = {t.name: tuple(sorted(t.domain)) for t in self.unit.tunables}
        while prod(map(len, self.domains.values())) > most:
            self.domains = self._smaller(self.domains, rng)

    def _smaller(self, domains: dict[str, tuple[int, ...]], rng: random.Random) -> dict[str, tuple[int, ...]]:
        """Without one value of one of the longest domains; its ends and the unit's own stay where they can."""
        own, longest = self.unit.values, max(map(len, domains.values()))
        name = rng.choice([n for n, d in domains.items() if len(d) == longest])
        inner = [v for v in domains[name][1:-1] if v != own[name]] or [
            v for v in domains[name] if v != own[name]
        ]
        gone = rng.choice(inner)
        return {**domains, name: tuple(v for v in domains[name] if v != gone)}

    def settings(self, rng: random.Random) -> list[Unit]:
        """All of them, those of a smaller lattice before those of a larger one: what is left when time is up is a lattice."""
        lattices = [self.domains]
        while any(len(d) > 1 for d in lattices[-1].values()):
            lattices.append(self._smaller(lattices[-1], rng))
        ordered: dict[tuple[int, ...], None] = {}
        for lattice in reversed(lattices):
            new = [c for c in product(*lattice.values()) if c not in ordered]
            rng.shuffle(new)
            ordered |= dict.fromkeys(new)
        return [with_values(self.unit, dict(zip(self.domains, c, strict=True))) for c in ordered]

    def record(self) -> lands.Source:
        unit = self.unit
        return lands.Source(
            site=self.site, family=unit.family, technique=unit.technique, flags=unit.flags,
            names=tuple(t.name for t in unit.tunables), domains=tuple(self.domains[t.name] for t in unit.tunables),
            full=prod(len(t.domain) for t in unit.tunables),
        )  # fmt: skip


def key(point: lands.Point) -> tuple[object, ...]:
    return point.source, point.values, point.flags
