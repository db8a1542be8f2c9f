"""Tuners: which values of a unit's tunables to try next, given those already judged. A strategy is one short class.

In: a unit, the settings of its source that were judged with their scores, how many are wanted. Out: the unit at new settings; its own,
which is known to work, before any other where it was not judged yet. `benchmarks/tuners.py` compares them all.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Protocol

from ..records import Unit

Values = Mapping[str, int]
Key = tuple[tuple[str, int], ...]
Tried = Sequence[tuple[Values, float]]
MOST_COMBINATIONS = 4096  # a larger space is sampled, never listed


class Tuner(Protocol):
    def propose(self, unit: Unit, tried: Tried, n: int, rng: random.Random) -> list[Unit]:
        """At most `n` settings of `unit` not among `tried` (values, score; higher is better, 0: it failed)."""
        ...


class HillClimb:
    """Neighbours of the best setting so far, one tunable moved one step in its domain; then random settings."""

    def propose(self, unit: Unit, tried: Tried, n: int, rng: random.Random) -> list[Unit]:
        fresh = Fresh(unit, tried, n)
        start = max(tried, key=lambda t: t[1])[0] if tried else unit.values
        steps = list(neighbours(unit, start))
        rng.shuffle(steps)
        for step in steps:
            fresh.add(step)
        return fresh.fill(rng)


class RandomSearch:
    """Settings drawn evenly from those not tried."""

    def propose(self, unit: Unit, tried: Tried, n: int, rng: random.Random) -> list[Unit]:
        return Fresh(unit, tried, n).fill(rng)


class Fresh:
    """Collects at most `n` settings that were not tried, each once; the unit's own is the first."""

    def __init__(self, unit: Unit, tried: Tried, n: int) -> None:
        self._unit, self._left = unit, n
        self._seen = {key_of(values) for values, _ in tried}
        self._chosen: list[Values] = []
        self.add(unit.values)

    def add(self, values: Values) -> bool:
        """Add a setting; return whether it is taken."""
        if self._left <= 0 or not values or key_of(values) in self._seen:
            return False
        self._seen.add(key_of(values))
        self._chosen.append(values)
        self._left -= 1
        return True

    def fill(self, rng: random.Random) -> list[Unit]:
        """The settings as units, random ones after those that were added."""
        for values in _random(self._unit, self._seen, self._left, rng):
            self.add(values)
        return [with_values(self._unit, values) for values in self._chosen]


def with_values(unit: Unit, values: Values) -> Unit:
    """The unit with its tunables set; a name not in `values` keeps its value."""
    tunables = tuple(t.model_copy(update={"value": values.get(t.name, t.value)}) for t in unit.tunables)
    return unit.model_copy(update={"tunables": tunables})


def at_other_values(unit: Unit) -> Iterator[Unit]:
    """At every other value of each tunable, one tunable at a time."""
    for tunable in unit.tunables:
        for value in tunable.domain:
            if value != tunable.value:
                yield with_values(unit, {tunable.name: value})


def key_of(values: Values) -> Key:
    return tuple(sorted(values.items()))


def neighbours(unit: Unit, values: Values) -> Iterator[dict[str, int]]:
    for tunable in unit.tunables:
        domain = sorted(tunable.domain)
        value = values.get(tunable.name, tunable.value)
        at = domain.index(value) if value in domain else 0
        for step in (at - 1, at + 1):
            if 0 <= step < len(domain) and domain[step] != value:
                yield {**values, tunable.name: domain[step]}


def every_setting(unit: Unit) -> list[dict[str, int]] | None:
    """All settings of a unit's tunables; None where there are too many to list."""
    if prod(len(t.domain) for t in unit.tunables) > MOST_COMBINATIONS:
        return None
    names = [t.name for t in unit.tunables]
    return [dict(zip(names, c, strict=True)) for c in product(*(t.domain for t in unit.tunables))]


def _random(unit: Unit, seen: set[Key], n: int, rng: random.Random) -> list[dict[str, int]]:
    """`n` unseen settings; the whole space is listed when small, sampled when large."""
    if n <= 0 or not unit.tunables:
        return []
    space = every_setting(unit)
    if space is not None:
        untried = [v for v in space if key_of(v) not in seen]
        return rng.sample(untried, min(n, len(untried)))
    draws = ({t.name: rng.choice(t.domain) for t in unit.tunables} for _ in range(10 * n))
    return list({key_of(v): v for v in draws if key_of(v) not in seen}.values())[:n]
