"""Simplify: the best candidate with less in it. Of two that are equally fast the one with less code wins.

What may go: a unit that is no faster than ATen, a compiler flag that its source does not ask for, a tunable that its source does
not use, a source for which a shorter one ran as fast alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ...agents.base import Attempt
from ...records import Candidate, Lineage, Unit
from ...records.intervals import is_unknown
from ..population import alone_us
from ..selection import beats, worth_of
from .base import Proposal, SearchContext, swap

EQUAL = 0.99  # share of what is sure of the best from which on a candidate that it does not surely beat is as fast
AS_FAST = 1.02  # a unit's time over another's, alone
IDLE = 0.95  # a unit that takes this share of ATen's time saves nothing
FLAG, TUNABLE = 20, 10  # what a flag and a tunable count as, in characters
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


class Simplify:
    name = "simplify"
    everywhere = True

    def applies(self, context: SearchContext) -> bool:
        return context.population.best() is not None

    def propose(self, context: SearchContext, n: int) -> list[Proposal]:
        judged = {a.candidate.content_key for a in context.situation.attempts}
        proposals: dict[str, Proposal] = {}
        for island, parent in context.leaders():
            for unit in parent.candidate.units:
                for replacement, why in _simpler(context, parent, unit):
                    lineage = Lineage(operator="simplify", agent="orchestrator", reason=why)
                    child = swap(context.situation, parent, unit, replacement, lineage)
                    if child.content_key not in judged:
                        proposals.setdefault(child.content_key, Proposal(child, None, island))
            if len(proposals) >= n:
                break
        return sorted(proposals.values(), key=lambda b: code_size(b.candidate))[:n]


def _simpler(context: SearchContext, parent: Attempt, unit: Unit) -> Iterator[tuple[Unit | None, str]]:
    """Units to take its place, or None for none, with the reason."""
    us = alone_us(parent, unit)
    aten = sum(context.situation.facts.node_us.get(name, 0.0) for name in unit.region.nodes)
    if len(parent.candidate.units) > 1 and us >= IDLE * aten > 0:
        yield None, f"without {unit.technique or unit.family}: it takes {us:.0f} us alone, ATen {aten:.0f} us"
    needed_flags = tuple(f for f in unit.flags if f in unit.source)
    if unit.flags != needed_flags:
        yield (
            unit.model_copy(update={"flags": needed_flags}),
            "without flags that its source does not ask for",
        )
    used = tuple(t for t in unit.tunables if _uses(unit.source, t.name))
    if unit.tunables != used:
        yield _without_tunables(unit, used), "without tunables that its source does not use"
    for shorter in _shorter(context.situation.attempts, unit, us):
        yield shorter, f"{shorter.technique or 'a source'} is shorter and as fast alone"


def _shorter(attempts: Iterable[Attempt], unit: Unit, us: float) -> Iterator[Unit]:
    for attempt in attempts:
        for candidate_unit in attempt.candidate.units if attempt.speedup > 0 else ():
            same = candidate_unit.region.id == unit.region.id and _size(candidate_unit) < _size(unit)
            if same and alone_us(attempt, candidate_unit) <= AS_FAST * us < float("inf"):
                yield candidate_unit


def _uses(source: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", _COMMENT.sub("", source)) is not None


def _without_tunables(unit: Unit, used: tuple[object, ...]) -> Unit:
    """Also without the lines of the front matter that declare them."""
    dropped = {t.name for t in unit.tunables if t not in used}
    lines = [
        line
        for line in unit.source.splitlines(keepends=True)
        if not any(re.match(rf"//\s*tunable:\s*{re.escape(name)}\b", line) for name in dropped)
    ]
    return unit.model_copy(update={"tunables": used, "source": "".join(lines)})


def code_size(candidate: Candidate) -> int:
    """Characters of code, comments and white space aside; flags and tunables count, too."""
    return sum(map(_size, candidate.units))


def _size(unit: Unit) -> int:
    code = "".join(_COMMENT.sub("", unit.text).split())
    return len(code) + FLAG * len(unit.flags) + TUNABLE * len(unit.tunables)


def as_fast(one: Attempt, best: Attempt) -> bool:
    """Not slower, as far as the intervals say, and hardly so by their low ends. An unknown speedup is equal to none."""
    if one.result.speedup is None or is_unknown(one.result.speedup):
        return False
    return worth_of(one) >= EQUAL * worth_of(best) and not beats(best, one)


def simplest_first(ranked: list[Attempt]) -> list[Attempt]:
    """Order those that are as fast as the first by how much code they have; leave the others behind them as they were."""
    equal = [a for a in ranked if a is ranked[0] or as_fast(a, ranked[0])]
    return [*sorted(equal, key=lambda a: code_size(a.candidate)), *(a for a in ranked if a not in equal)]
