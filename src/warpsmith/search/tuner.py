"""Tuners: which values of a unit's tunables to try next, given those already judged. A strategy is one short class."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Protocol

from ..records import Unit

Values = Mapping[str, int]
Key = tuple[tuple[str, int], ...]
MOST_COMBINATIONS = 4096  # a larger space is sampled, never listed


class Tuner(Protocol):
    def propose(
        self, unit: Unit, tried: Sequence[tuple[Values, float]], n: int, rng: random.Random
    ) -> list[Unit]:
        """At most `n` settings of `unit` not among `tried` (values, score; higher is better)."""
        ...


class HillClimb:
    """Neighbours of the best setting so far, one tunable moved one step in its domain; then random settings."""

    def propose(
        self, unit: Unit, tried: Sequence[tuple[Values, float]], n: int, rng: random.Random
    ) -> list[Unit]:
        seen = {_key(v) for v, _ in tried} | {_key(unit.values)}
        start = max(tried, key=lambda t: t[1])[0] if tried else unit.values
        steps = [v for v in _neighbours(unit, start) if _key(v) not in seen]
        rng.shuffle(steps)
        chosen = steps[:n]
        seen |= {_key(v) for v in chosen}
        return [with_values(unit, v) for v in [*chosen, *_random(unit, seen, n - len(chosen), rng)]]


class RandomSearch:
    """Settings drawn evenly from those not tried."""

    def propose(
        self, unit: Unit, tried: Sequence[tuple[Values, float]], n: int, rng: random.Random
    ) -> list[Unit]:
        seen = {_key(v) for v, _ in tried} | {_key(unit.values)}
        return [with_values(unit, v) for v in _random(unit, seen, n, rng)]


def with_values(unit: Unit, values: Values) -> Unit:
    """The unit with its tunables set; a name not in `values` keeps its value."""
    tunables = tuple(t.model_copy(update={"value": values.get(t.name, t.value)}) for t in unit.tunables)
    return unit.model_copy(update={"tunables": tunables})


def _key(values: Values) -> Key:
    return tuple(sorted(values.items()))


def _neighbours(unit: Unit, values: Values) -> Iterator[dict[str, int]]:
    for tunable in unit.tunables:
        domain = sorted(tunable.domain)
        here = values.get(tunable.name, tunable.value)
        at = domain.index(here) if here in domain else 0
        for step in (at - 1, at + 1):
            if 0 <= step < len(domain) and domain[step] != here:
                yield {**values, tunable.name: domain[step]}


def _random(unit: Unit, seen: set[Key], n: int, rng: random.Random) -> list[dict[str, int]]:
    """`n` unseen settings; the whole space is listed when small, sampled when large."""
    names = [t.name for t in unit.tunables]
    domains = [t.domain for t in unit.tunables]
    size = 1
    for domain in domains:
        size *= len(domain)
    if n <= 0 or not names:
        return []
    if size <= MOST_COMBINATIONS:
        space = [dict(zip(names, c, strict=True)) for c in product(*domains)]
        left = [v for v in space if _key(v) not in seen]
        return rng.sample(left, min(n, len(left)))
    draws = ({t.name: rng.choice(t.domain) for t in unit.tunables} for _ in range(10 * n))
    return list({_key(v): v for v in draws if _key(v) not in seen}.values())[:n]
