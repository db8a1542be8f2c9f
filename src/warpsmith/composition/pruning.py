"""Which of the parts help together: those whose answers hold up, and without which the model would be slower.

In: functions that check and measure a set of parts, by name. Out: the parts that stay, why each other one went, and the speedup of
those that stay, measured afresh. Every part goes in first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..records import Ratio
from ..records.intervals import describe_ratio
from .parity import Parity
from .side_by_side import Blocks

ORIGINAL, ALL = "original", "all"

Check = Callable[[Sequence[str]], Parity]
Measure = Callable[
    [Mapping[str, Sequence[str]]], Blocks
]  # of named sets of parts; the original is always with them


@dataclass(frozen=True)
class Pruned:
    """What pruning left."""

    names: tuple[str, ...]
    dropped: dict[str, str]  # part → why
    speedup: Ratio | None  # over the original; None where nothing is left
    parity: Parity | None


def prune(
    parts: Mapping[str, float], check: Check, measure: Measure, find_idle: Callable[[str], str]
) -> Pruned:
    """Prune parts, given with their predicted savings. `find_idle` says after a check why a part's kernels never ran."""
    dropped: dict[str, str] = {}
    names = drop_wrong(sorted(parts, key=lambda n: -parts[n]), check, dropped)
    idle = {name: reason for name in names if (reason := find_idle(name))}
    dropped |= {name: f"its kernels never ran: {reason}" for name, reason in idle.items()}
    names = [name for name in names if name not in idle]
    names = drop_useless(names, measure, dropped)
    while names:
        speedup, parity = measure({ALL: names}).compare(ORIGINAL, ALL), check(names)
        if speedup.low > 1 and parity.ok:
            return Pruned(tuple(names), dropped, speedup, parity)
        weakest = min(names, key=lambda n: parts[n])
        slow = f"the model was not surely faster with it: {describe_ratio(speedup)}"
        dropped[weakest] = slow if parity.ok else f"the model's answers: {parity.detail}"
        names = [name for name in names if name != weakest]
    return Pruned((), dropped, None, None)


def drop_wrong(names: list[str], check: Check, dropped: dict[str, str]) -> list[str]:
    """Drop parts until the answers hold up: first those that fail alone, then the last that was added."""
    if not names or check(names).ok:
        return names
    alone = {name: check([name]) for name in names}
    dropped.update({name: f"the model's answers: {p.detail}" for name, p in alone.items() if not p.ok})
    names = [name for name in names if alone[name].ok]
    while names and not (parity := check(names)).ok:
        dropped[names[-1]] = f"the model's answers, beside the others: {parity.detail}"
        names = names[:-1]
    return names


def drop_useless(names: list[str], measure: Measure, dropped: dict[str, str]) -> list[str]:
    """Drop each part without which the model is not slower."""
    if len(names) < 2:
        return names
    without = {name: [n for n in names if n != name] for name in names}
    blocks = measure({ALL: names, **without})
    helpful = []
    for name in names:
        speedup = blocks.compare(name, ALL)
        if speedup.median > 1:
            helpful.append(name)
        else:
            dropped[name] = f"the model is not slower without it: {describe_ratio(speedup)}"
    if not helpful:
        dropped.pop(names[0])  # alone it may help
        return names[:1]
    return helpful
